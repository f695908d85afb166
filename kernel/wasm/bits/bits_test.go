//go:build !js

package bits

import (
	"crypto/sha256"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"shoal/kernel"
	"shoal/kernel/kerneltest"
	"shoal/kernel/ref"
)

var modules = []string{"kernels-relaxed", "kernels-relaxed-unshared", "kernels-simd", "kernels-simd-unshared"}

// setups run both kinds of module in one part and in three.
var setups = []setup{
	{module: "kernels-relaxed", parts: 1},
	{module: "kernels-relaxed", parts: 3, threads: true},
	{module: "kernels-relaxed-unshared", parts: 3},
	{module: "kernels-simd", parts: 1},
	{module: "kernels-simd", parts: 3, threads: true},
	{module: "kernels-simd-unshared", parts: 3},
}

func TestFuses(t *testing.T) {
	for _, m := range modules {
		if !start(t, setup{module: m, parts: 1}).fused(t) {
			t.Errorf("%s rounds a fused multiply-add twice", m)
		}
	}
}

// The suite of all devices.
func TestSuite(t *testing.T) {
	for _, s := range setups {
		t.Run(s.String(), func(t *testing.T) {
			n := start(t, s)
			kerneltest.Run(t, func(*testing.T) kernel.Device { return n.device() })
		})
	}
}

// kernels.sum names the sources and modules as they are.
func TestSum(t *testing.T) {
	sums, err := os.ReadFile("../kernels.sum")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(sums)), "\n")
	if len(lines) < len(modules)+3 {
		t.Errorf("kernels.sum has %d lines", len(lines))
	}
	for _, line := range lines {
		sum, name, _ := strings.Cut(line, "  ")
		b, err := os.ReadFile("../" + name)
		if err != nil {
			t.Fatal(err)
		}
		if fmt.Sprintf("%x", sha256.Sum256(b)) != sum {
			t.Errorf("%s is not that of kernels.sum: run kernel/wasm/generate.sh", name)
		}
	}
}

// pair runs one op on a module and on ref, and compares all that the buffers hold.
type pair struct{ dev, want kernel.Device }

func (p pair) same(t *testing.T, name string, data [][]float32, run func(o kernel.Ops, b []kernel.Buffer)) {
	t.Helper()
	got, want := results(t, p.dev, data, run), results(t, p.want, data, run)
	for i := range got {
		for j, x := range got[i] {
			if y := want[i][j]; math.Float32bits(x) != math.Float32bits(y) && (x == x || y == y) {
				t.Fatalf("%s: buffer %d, element %d: %v (%#08x), ref %v (%#08x)", name, i, j, x, math.Float32bits(x), y, math.Float32bits(y))
			}
		}
	}
}

func results(t *testing.T, d kernel.Device, data [][]float32, run func(o kernel.Ops, b []kernel.Buffer)) [][]float32 {
	t.Helper()
	b := make([]kernel.Buffer, len(data))
	for i, x := range data {
		b[i] = d.Alloc(kernel.Other, kernel.F32, len(x))
		d.Upload(b[i], kernel.Bytes(x))
	}
	run(d, b)
	res := make([][]float32, len(b))
	for i := range b {
		res[i] = make([]float32, b[i].Len)
		if err := d.Download(kernel.Bytes(res[i]), b[i]); err != nil {
			t.Fatal(err)
		}
		d.Free(b[i])
	}
	return res
}

// hard are values whose sums and products meet every case of rounding: few bits set, neighbours of powers of two, magnitudes
// near one another and far apart, subnormals, and now and then zero, infinity or NaN.
func hard(r *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		exponent := 127 + r.IntN(26) - 13
		switch r.IntN(8) {
		case 0:
			exponent = r.IntN(255)
		case 1:
			exponent = r.IntN(3)
		case 2:
			exponent = 64 + r.IntN(3) // squares are subnormal
		}
		mantissa := r.Uint32() & (1<<23 - 1)
		switch r.IntN(4) {
		case 0:
			mantissa = 1 << r.IntN(23)
		case 1:
			mantissa = -(1 << r.IntN(23)) & (1<<23 - 1)
		case 2:
			mantissa &= 0x7ff << 12
		}
		x[i] = math.Float32frombits(r.Uint32()&(1<<31) | uint32(exponent)<<23 | mantissa)
		if r.IntN(200) == 0 {
			x[i] = []float32{0, float32(math.Copysign(0, -1)), float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN())}[r.IntN(5)]
		}
	}
	return x
}

// One multiply-add each, of operands that are hard to round; the third one is often near the product, or its neighbour.
func TestFusedRounding(t *testing.T) {
	for _, m := range modules {
		t.Run(m, func(t *testing.T) {
			p := pair{start(t, setup{module: m, parts: 1}).device(), ref.New()}
			r := rand.New(rand.NewPCG(5, 6))
			for round := range 30 {
				const rows, cols = 90, 110
				a, b, c := hard(r, rows), hard(r, cols), hard(r, rows*cols)
				for i := range c {
					if x := -a[i/cols] * b[i%cols]; r.IntN(3) > 0 {
						c[i] = math.Float32frombits(math.Float32bits(x) + uint32(r.IntN(5)-2)<<uint(r.IntN(2)*r.IntN(24)))
					}
				}
				if round%3 == 0 { // products next to half of the smallest float32, and sums around the smallest normal one
					for i := range a {
						a[i] = (1 + 0x1p-23*float32(r.IntN(3))) * 0x1p-75
					}
					for i := range b {
						b[i] = (1 - 0x1p-23*float32(r.IntN(3))) * 0x1p-75
					}
					for i := range c {
						c[i] = math.Float32frombits(uint32(r.IntN(1<<25)) | uint32(r.IntN(2))<<31)
					}
				}
				p.same(t, fmt.Sprint("round ", round), [][]float32{c, a, b}, func(o kernel.Ops, b []kernel.Buffer) {
					o.MatMul(kernel.NN, b[0], b[1], b[2], rows, cols, 1, true)
				})
			}
		})
	}
}

// Shapes beyond one block in each direction, and random ones.
func TestProducts(t *testing.T) {
	for _, s := range setups {
		t.Run(s.String(), func(t *testing.T) {
			p := pair{start(t, s).device(), ref.New()}
			r := rand.New(rand.NewPCG(7, 8))
			shapes := [][3]int{{130, 9, 514}, {5, 515, 258}, {300, 530, 3}, {1, 1, 1000}, {4, 8, 256}, {257, 1, 70}, {1, 1029, 5}}
			for range 15 {
				shapes = append(shapes, [3]int{r.IntN(150), r.IntN(150), r.IntN(150)})
			}
			for i, s := range shapes {
				m, n, k, trans, more := s[0], s[1], s[2], kernel.Trans(i%3), i%2 == 1
				data := [][]float32{hard(r, m*n), hard(r, m*k), hard(r, k*n)}
				if i%4 < 2 {
					data = [][]float32{normal(r, m*n), normal(r, m*k), normal(r, k*n)}
				}
				p.same(t, fmt.Sprintf("%v %dx%dx%d accumulate=%v", trans, m, n, k, more), data, func(o kernel.Ops, b []kernel.Buffer) {
					o.MatMul(trans, b[0], b[1], b[2], m, n, k, more)
				})
			}
		})
	}
}

// The ops on rows, over random shapes.
func TestRandomShapes(t *testing.T) {
	for _, s := range setups {
		t.Run(s.String(), func(t *testing.T) {
			p := pair{start(t, s).device(), ref.New()}
			r := rand.New(rand.NewPCG(11, 12))
			for i := range 12 {
				values := normal
				if i%4 == 3 {
					values = hard
				}
				rows, cols, period := 1+r.IntN(70), 1+r.IntN(300), 1+r.IntN(9)
				n := rows * cols
				p.same(t, fmt.Sprintf("norm %dx%d", rows, cols), [][]float32{values(r, n), values(r, rows), values(r, rows), values(r, n),
					values(r, cols), values(r, cols), values(r, n), values(r, cols), values(r, cols)}, func(o kernel.Ops, b []kernel.Buffer) {
					o.LayerNorm(b[0], b[1], b[2], b[3], b[4], b[5], rows, cols)
					o.LayerNormBackward(b[6], b[7], b[8], b[0], b[3], b[1], b[2], b[4], rows, cols)
				})
				p.same(t, fmt.Sprintf("rows %dx%d by %d", rows, cols, period), [][]float32{values(r, n), values(r, n), values(r, period*cols),
					values(r, n*period), values(r, n)}, func(o kernel.Ops, b []kernel.Buffer) {
					o.AddRows(b[0], b[1], b[2], rows, cols, period)
					o.SumRows(b[2], b[0], rows, cols, period)
					o.MeanRows(b[4], b[3], rows, period, cols)
					o.MeanRowsBackward(b[3], b[4], rows, period, cols)
				})
				a := kernel.AttentionShape{B: 1 + r.IntN(3), T: 1 + r.IntN(140), H: 1 + r.IntN(3), D: 1 + r.IntN(40), Causal: i%2 == 1}
				n = a.B * a.T * a.H * a.D
				p.same(t, fmt.Sprintf("attention %+v", a), [][]float32{values(r, n), values(r, a.B*a.H*a.T*2), values(r, 3*n), values(r, n),
					values(r, 3*n)}, func(o kernel.Ops, b []kernel.Buffer) {
					o.Attention(b[0], b[1], b[2], a)
					o.AttentionBackward(b[4], b[3], b[0], b[2], b[1], a)
				})
			}
		})
	}
}

func normal(r *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	return x
}

// With little scratch a group of attention's rows goes through in pieces; with too little for one row, the op fails.
func TestAttentionScratch(t *testing.T) {
	const pack = 4*(128*256+512*256+4*8) + 64
	r := rand.New(rand.NewPCG(9, 10))
	for _, causal := range []bool{false, true} {
		s := kernel.AttentionShape{B: 2, T: 150, H: 2, D: 9, Causal: causal}
		n := s.B * s.T * s.H * s.D
		data := [][]float32{make([]float32, n), make([]float32, s.B*s.H*s.T*2), normal(r, 3*n), normal(r, n), make([]float32, 3*n)}
		run := func(o kernel.Ops, b []kernel.Buffer) {
			o.Attention(b[0], b[1], b[2], s)
			o.AttentionBackward(b[4], b[3], b[0], b[2], b[1], s)
		}
		for _, rows := range []int{1, 7} {
			p := pair{start(t, setup{module: "kernels-relaxed", parts: 1, scratch: pack + rows*2*4*s.T}).device(), ref.New()}
			p.same(t, fmt.Sprintf("%+v, scratch for %d rows", s, rows), data, run)
		}
		d := start(t, setup{module: "kernels-relaxed", parts: 1, scratch: pack}).device()
		y, stats, qkv := d.Alloc(kernel.Other, kernel.F32, n), d.Alloc(kernel.Other, kernel.F32, s.B*s.H*s.T*2), d.Alloc(kernel.Other, kernel.F32, 3*n)
		d.Attention(y, stats, qkv, s)
		if err := d.Sync(); err == nil || !strings.Contains(err.Error(), "attention: unreachable") {
			t.Errorf("attention without scratch: %v", err)
		}
	}
}

// BenchmarkMatMul is one worker's speed.
func BenchmarkMatMul(b *testing.B) {
	for _, s := range []struct {
		trans   kernel.Trans
		m, n, k int
	}{
		{kernel.NN, 512, 384, 1536}, {kernel.NT, 512, 384, 1536}, {kernel.TN, 512, 384, 1536}, {kernel.NN, 512, 512, 512},
		{kernel.NT, 1088, 192, 64}, {kernel.NN, 64, 64, 64}, {kernel.NT, 17, 17, 16},
	} {
		for _, m := range modules {
			if strings.HasSuffix(m, "unshared") {
				continue
			}
			b.Run(fmt.Sprintf("%v-%dx%dx%d/%s", s.trans, s.m, s.n, s.k, strings.TrimPrefix(m, "kernels-")), func(b *testing.B) {
				node := start(b, setup{module: m, parts: 1})
				d := node.device()
				fill := func(n int) kernel.Buffer {
					buf := d.Alloc(kernel.Other, kernel.F32, n)
					d.Upload(buf, kernel.Bytes(normal(rand.New(rand.NewPCG(1, 2)), n)))
					return buf
				}
				c, x, y := fill(s.m*s.n), fill(s.m*s.k), fill(s.k*s.n)
				node.times = 1 + 100_000_000/(s.m*s.n*s.k) // warms up
				d.MatMul(s.trans, c, x, y, s.m, s.n, s.k, false)
				node.times = b.N
				b.ResetTimer()
				d.MatMul(s.trans, c, x, y, s.m, s.n, s.k, false)
				if err := d.Sync(); err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(2*float64(s.m*s.n)*float64(s.k)*float64(b.N)/node.ns, "GFLOP/s")
			})
		}
	}
}
