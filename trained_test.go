package shoal

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"shoal/kernel/cpu"
)

// A model whose training went astray is whole, by its hash, but has nothing to say.
func TestSampleOfNaN(t *testing.T) {
	dir, run := t.TempDir(), ofFiles("text")
	m, err := buildModel(run.Model)
	if err != nil {
		t.Fatal(err)
	}
	full := &task{run: *run, model: m, data: noSamples{m}}
	dev, err := cpu.New(cpu.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	values := func(_ string, _ int, dst []float32) error {
		for i := range dst {
			dst[i] = float32(math.NaN())
		}
		return nil
	}
	res, err := full.withParameters(t.Context(), dev, values)
	if err != nil {
		t.Fatal(err)
	}
	out, err := newOutput(dir, m)
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range m.Units() {
		for _, p := range u.Params {
			v := make([]float32, p.Len())
			values(p.Name, 0, v)
			if err := out.add(p, v); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := out.finish(full.run, full.identity(), "00", res.StateHash); err != nil {
		t.Fatal(err)
	}
	trained, err := OpenTrained(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer trained.Close()
	var text bytes.Buffer
	err = trained.Sample(t.Context(), &text, Sampling{Prompt: "a", Tokens: 3, Temperature: 1})
	if err == nil || !strings.Contains(err.Error(), "are no numbers") || text.String() != "a" {
		t.Errorf("sampled %q, %v", text.String(), err)
	}
}

// A text of ten bytes can be learned, but there is nothing to evaluate on.
func TestEvaluateTinyText(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tiny")
	if err := os.WriteFile(file, []byte("ten bytes."), 0o600); err != nil {
		t.Fatal(err)
	}
	run := ofFiles("text")
	run.Model.Context, run.Train.Steps, run.Train.Batch, run.Train.Microbatch = 8, 1, 1, 1
	run.Train.Warmup = 0
	cfg := Config{RunFile: run, Files: "text:" + file, Out: t.TempDir(), Memory: 1 << 30, Cores: 1, Listen: []string{"/ip4/127.0.0.1/tcp/0"}}
	if _, err := Run(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	m, err := OpenTrained(cfg.Out)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if _, err := m.Evaluate(t.Context(), Config{Files: cfg.Files}); err == nil || !strings.Contains(err.Error(), "text is too short to hold anything out") {
		t.Errorf("evaluated with %v", err)
	}
}
