package main

import (
	"strings"
	"testing"
	"time"

	"shoal/kernel"
	"shoal/kernel/kernelbench"
)

// sample is an outcome in which everything meets its target: our product comes to 90 of a peak of 100 GFLOP/s, OpenBLAS to
// as many; the op has the bandwidth of a copy, the step takes half as long as theirs.
func sample() *outcome {
	product := kernelbench.Products(kernel.NN, 512, 512, 512, 1)
	gflops := func(x float64) []float64 { return []float64{product.FLOPs / x / 1e9} }
	op := kernelbench.Op{Name: "GELU", Shape: "1024", Bytes: kernelbench.Copy().Bytes}
	return &outcome{rounds: 3, slice: 30 * time.Millisecond, backend: "cpu/fast", peak: []float64{100e9}, copied: []float64{1e-4},
		about: about{Torch: "2.0", Threads: 1, Capability: "AVX512", Config: []string{"OpenMP 1", "else"},
			Libraries: []library{{API: "openblas", Version: "0.3", Architecture: "SkylakeX", Layer: "pthreads", Threads: 1}}},
		products: []*opMatch{{op: product, match: match{name: product.Name, shape: product.Shape, ours: &side{seconds: gflops(90)},
			theirs: []*side{{name: "numpy", seconds: gflops(90)}, {name: "torch", seconds: gflops(45)}}}}},
		ops: []*opMatch{{op: op, match: match{name: op.Name, shape: op.Shape, ours: &side{seconds: []float64{1e-4}},
			theirs: []*side{{name: "eager", seconds: []float64{1.5e-4}}}}}},
		steps: []*stepMatch{{threads: 1, parameters: 1234, batch: 64, eager: 1.3, busy: 10 * time.Second,
			device: &clocked{products: 6 * time.Second, attention: time.Second},
			match: match{name: "ViT", shape: "12 x 64", ours: &side{seconds: []float64{0.01}},
				theirs: []*side{{name: "eager", seconds: []float64{0.02}}, {name: "compiled", seconds: []float64{0.015}}}}}},
	}
}

func TestTables(t *testing.T) {
	text, missed := tables(sample())
	if missed != nil {
		t.Error(missed)
	}
	for _, want := range []string{
		"cpu/fast built with go", "OpenBLAS 0.3 with its kernels for SkylakeX, 1 thread by pthreads", "own kernels: AVX512, 1 thread", "OpenMP 1\n",
		"| NN | 512x512x512 | 90 | 90 | 45 | 1.00 | 0.90 | 2.00 | met |",
		"| GELU | 1024 | 100 | 150 | eager | 1.50 | 1.00 |  | met |",
		"| ViT 12 x 64 | 1234 | 64 | 1 | 10.0 | 20.0 | 15.0 | 2.00 | 1.3 | 1.50 | met |",
		"| ViT 12 x 64 | 1 | 60% | 10% | 30% |",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the tables lack %q:\n%s", want, text)
		}
	}
}

// TestMissed: what is below its target is marked, and named in the error.
func TestMissed(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*outcome)
		want   string // in the error; nothing if the target is met
	}{
		{"slower than OpenBLAS", func(o *outcome) { o.products[0].theirs[0].seconds[0] /= 1.2 }, "MatMul NN 512x512x512: 0.83 of OpenBLAS, 0.90 of the peak"},
		{"a small one may be", func(o *outcome) { o.products[0].theirs[0].seconds[0] /= 1.2; o.products[0].small = true }, ""},
		{"below the peak", func(o *outcome) { o.peak[0] = 110e9 }, "0.82 of the peak"},
		{"neither fast nor near a copy", func(o *outcome) { o.copied[0] /= 2 }, "GELU 1024: 1.50 times PyTorch, 0.50 of a copy"},
		{"fast alone", func(o *outcome) { o.copied[0] /= 2; o.ops[0].theirs[0].seconds[0] = 2.1e-4 }, ""},
		{"another way is faster", func(o *outcome) {
			o.copied[0] /= 2
			o.ops[0].theirs = append(o.ops[0].theirs, &side{name: "fused", seconds: []float64{0.8e-4}})
		}, "GELU 1024: 0.80 times PyTorch"},
		{"what does a part of it is not compared with", func(o *outcome) {
			o.ops[0].theirs = append(o.ops[0].theirs, &side{name: kept, seconds: []float64{0.1e-4}})
		}, ""},
		{"an attention has no target", func(o *outcome) { o.copied[0], o.ops[0].name = 1e-6, "Attention" }, ""},
		{"not 1.3 times eager", func(o *outcome) { o.steps[0].theirs[0].seconds[0] = 0.0125 }, "ViT 12 x 64: with 1 thread 1.25 times eager"},
		{"slower than compiled", func(o *outcome) { o.steps[0].theirs[1].seconds[0] = 0.009 }, "0.90 times compiled"},
		{"nothing compiled", func(o *outcome) { o.steps[0].theirs = o.steps[0].theirs[:1]; o.steps[0].missing = "no compiler" }, "NaN times compiled"},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := sample()
			c.change(o)
			text, missed := tables(o)
			if marks := strings.Count(string(text), "**missed**"); (missed == nil) != (marks == 0) || (missed == nil) != (c.want == "") {
				t.Fatalf("%d marks, error %v", marks, missed)
			}
			if c.want != "" && !strings.Contains(missed.Error(), c.want) {
				t.Errorf("error %q lacks %q", missed, c.want)
			}
			if o.ops[0].side(kept) != nil && !strings.Contains(string(text), "PyTorch's part of GELU 1024 from weights that it kept: 10 us.") {
				t.Errorf("the page doesn't tell what a part takes:\n%s", text)
			}
			if o.steps[0].missing != "" && !strings.Contains(string(text), "with 1 thread: no compiler.") {
				t.Errorf("the page doesn't say what is missing:\n%s", text)
			}
		})
	}
}
