package main

import (
	"path/filepath"
	"strings"
	"testing"

	"shoal/scripts/internal/page"
)

// sample has every part, with each target just met: peers are as fast as they must be, and send and hold as much as they may.
func sample() map[string]*result {
	all := map[string]*result{}
	for _, p := range parts() {
		r := &result{Where: "a machine: cpu/fast built with go", Batch: 16, Steps: 2, Parameters: p.model.inBlocks() + 1000}
		all[p.name()] = r
		if p.processes == 0 {
			for i, n := range sizes {
				r.Sides = append(r.Sides, &side{Name: "peers", Processes: n, Threads: 1, Seconds: []float64{1, 1.1 + 0.2*float64(i), 1}, CPU: []float64{2}})
			}
			continue
		}
		r.Theirs, r.BareBase, r.Bare = "PyTorch 2", 500<<20, 40<<20
		ours := &side{Name: "peers", Processes: p.processes, Seconds: []float64{1, 10, 2}, Memory: 100 << 20}
		ours.Bytes = 0.98 * ways[0].least(r.Parameters, p.model.inBlocks(), p.processes)
		ours.Packed = 0.7 * ours.Bytes
		r.Sides = append(r.Sides, ours)
		for _, w := range ways {
			r.Sides = append(r.Sides, &side{Name: w.name, Processes: p.processes, Threads: 1, Seconds: []float64{1.6, 15, 3}, CPU: []float64{4}, Bytes: 5e7, Memory: 200 << 20})
		}
	}
	return all
}

func TestTables(t *testing.T) {
	text, missed := tables(sample())
	if missed != nil {
		t.Error(missed)
	}
	for _, want := range []string{
		"### GPT 6 x 384, one peer and several\n",
		"| peers | 1 | 1000 | 2000 | 16.0 | 1.00 | 0.85 | met |\n",
		"On a machine: cpu/fast built with go; PyTorch 2. 10647784 parameters, 16 samples a step, 3 rounds of 2 steps.\n",
		"| FSDP2, float32 | 1 | 3000 | 4000 | 5.3 | 1.50 | 50.0 |",
		"| 0.653 | 0.457 | 200 MiB | 0.50 | met |\n",
		"takes 500 MiB, a peer with a model of a few parameters 40.0 MiB.\n",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the tables lack %q:\n%s", want, text)
		}
	}
}

// TestMissed: what is below its target is marked, and named in the error; what is not measured is neither.
func TestMissed(t *testing.T) {
	scaled, two := parts()[0].name(), parts()[1].name()
	for _, c := range []struct {
		name   string
		change func(map[string]*result)
		want   string // in the error; nothing if the target is met
	}{
		{"not measured", func(all map[string]*result) { delete(all, two) }, ""},
		{"several peers are slow", func(all map[string]*result) { all[scaled].Sides[1].Seconds = []float64{1.2, 1.2, 1.2} },
			"one peer and several, peers: 0.83 of the samples per second of one peer, at least 0.85"},
		{"not 1.5 times", func(all map[string]*result) { all[two].Sides[1].Seconds = []float64{1.4, 14, 2.8} },
			"2 processes, DDP: 1.40 times as fast, at least 1.5"},
		{"more bytes", func(all map[string]*result) { all[two].Sides[0].Bytes *= 1.03 }, "2 processes, DDP: 1.01 of its bytes, at most 1"},
		{"more packed bytes", func(all map[string]*result) { all[two].Sides[0].Packed *= 1.05 }, "0.48 of its bytes where all is packed, at most 0.47"},
		{"more memory", func(all map[string]*result) { all[two].Sides[4].Memory /= 3 }, "bf16/float32: 1.50 of its peak memory"},
		{"more memory than one without a target", func(all map[string]*result) { all[two].Sides[3].Memory /= 3 }, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			all := sample()
			c.change(all)
			text, missed := tables(all)
			if marks := strings.Count(string(text), "**missed**"); (missed == nil) != (marks == 0) || (missed == nil) != (c.want == "") {
				t.Fatalf("%d marks, error %v", marks, missed)
			}
			if c.want != "" && !strings.Contains(missed.Error(), c.want) {
				t.Errorf("error %q lacks %q", missed, c.want)
			}
		})
	}
}

// TestLeast: bytes by hand, for 100 parameters of which 80 are in blocks.
func TestLeast(t *testing.T) {
	for i, want := range []float64{800, 1120, 800, 760, 600} {
		if got := ways[i].least(100, 80, 2); got != want/2 {
			t.Errorf("%s: %v bytes of two processes, want %v", ways[i].name, got, want/2)
		}
		if got := ways[i].least(100, 80, 4); got != want*3/4 {
			t.Errorf("%s: %v bytes of four processes, want %v", ways[i].name, got, want*3/4)
		}
	}
}

// TestResults: what is kept comes back; where nothing was kept, nothing.
func TestResults(t *testing.T) {
	file := filepath.Join(t.TempDir(), "new", "results.json")
	if all, err := load(file); err != nil || len(all) != 0 {
		t.Fatalf("%v, %v", all, err)
	}
	want, _ := tables(sample())
	if err := save(file, sample()); err != nil {
		t.Fatal(err)
	}
	all, err := load(file)
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := tables(all); string(got) != string(want) {
		t.Errorf("it comes back as\n%s", got)
	}
}

// TestPage: docs/bench.md has a place for these tables, and one for those of make bench.
func TestPage(t *testing.T) {
	for _, maker := range []string{"make bench", "make bench-mesh"} {
		if err := page.Check("../../docs/bench.md", maker); err != nil {
			t.Error(err)
		}
	}
}
