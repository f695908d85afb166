//go:build unix

package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"shoal/internal/runfile"
	"shoal/testnet"
)

// command runs the program in this process.
func command(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), args, strings.NewReader(""), &out, &errs)
	return code, out.String(), errs.String()
}

// smallText is a run of a language model of bytes on a text that repeats itself.
func smallText(t *testing.T) (run runfile.Run, file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(file, []byte(strings.Repeat("the cat sat on the mat. ", 200)), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := runfile.Parse([]byte(`
model: {type: gpt, vocab: 256, context: 32, dim: 32, depth: 2, heads: 2}
data: {source: text, eval: 8}
train: {steps: 60, batch: 16, microbatch: 4, lr: 1e-2, warmup: 5, clip: 1}
`))
	if err != nil {
		t.Fatal(err)
	}
	r.Data.Path = file
	return r, file
}

// TestTrainedModel trains a language model with 1 and 3 processes, to the same hash and the same file, evaluates it again
// and lets it continue a text.
func TestTrainedModel(t *testing.T) {
	run, file := smallText(t)
	var models [][]byte
	var hashes []string
	var dir string
	var loss float64
	for _, n := range []int{1, 3} {
		dir = filepath.Join(t.TempDir(), "model")
		r := runTestnet(t, testnet.Config{RunFile: &run, Peers: n, Out: dir})
		b, err := os.ReadFile(filepath.Join(dir, "model.safetensors"))
		if err != nil {
			t.Fatal(err)
		}
		models, hashes, loss = append(models, b), append(hashes, r.StateHash), float64(r.Eval.Loss)
	}
	if hashes[0] != hashes[1] || !bytes.Equal(models[0], models[1]) {
		t.Errorf("one process and three end with different models: hashes %q", hashes)
	}
	if loss > 0.5 {
		t.Errorf("held-out loss %.3f of a text that repeats itself", loss)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*.part*")); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}

	if text, err := os.ReadFile(filepath.Join(dir, "config.json")); err != nil || strings.Contains(string(text), file) {
		t.Errorf("config.json tells where this machine has its files (%v)", err)
	}
	code, out, errs := command(t, "eval", dir, "--data", "text:"+file)
	if want := fmt.Sprintf("loss %.4f", loss); code != exitOK || !strings.Contains(out, want) {
		t.Errorf("eval: exit code %d, %q, %q; want %q", code, out, errs, want)
	}
	code, out, errs = command(t, "sample", dir, "--prompt", "the cat sat on", "--tokens", "10", "--temperature", "0")
	if code != exitOK || out != "the cat sat on the mat. \n"[:len("the cat sat on")+10]+"\n" {
		t.Errorf("sample: exit code %d, %q, %q", code, out, errs)
	}
	for _, c := range []struct {
		name, want string
		spoil      func(b []byte) []byte
	}{
		{"cut short", "model.safetensors", func(b []byte) []byte { return b[:len(b)-1] }},
		{"a flipped bit", "the parameters were changed", func(b []byte) []byte { b[len(b)-2] ^= 1; return b }},
	} {
		if err := os.WriteFile(filepath.Join(dir, "model.safetensors"), c.spoil(bytes.Clone(models[1])), 0o600); err != nil {
			t.Fatal(err)
		}
		code, _, errs := command(t, "eval", dir, "--data", "text:"+file)
		if code == exitOK || strings.Count(errs, "\n") != 1 || !strings.Contains(errs, c.want) {
			t.Errorf("%s: exit code %d, %q; want %q", c.name, code, errs, c.want)
		}
	}
	code, out, errs = command(t, "sample", dir, "--prompt", "x") // the flipped bit is still there
	if code == exitOK || out != "" || !strings.Contains(errs, "the parameters were changed") {
		t.Errorf("sample of a model with a flipped bit: exit code %d, %q, %q", code, out, errs)
	}
	if err := os.WriteFile(filepath.Join(dir, "model.safetensors"), models[1], 0o600); err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(t.TempDir(), "other")
	if err := os.WriteFile(other, []byte(strings.Repeat("the dog ate the cat. ", 200)), 0o600); err != nil {
		t.Fatal(err)
	}
	code, _, errs = command(t, "eval", dir, "--data", "text:"+other)
	if code != exitWrongInput || !strings.Contains(errs, "--data: these are not the data that the run learned from: text has 4200 bytes, not 4800") {
		t.Errorf("eval on other data: exit code %d, %q", code, errs)
	}
	code, out, errs = command(t, "eval", dir, "--data", "text:"+other, "--other-data")
	if code != exitOK || !strings.HasPrefix(out, "other data  than the run learned from: text has 4200 bytes") {
		t.Errorf("eval on other data that are allowed: exit code %d, %q, %q", code, out, errs)
	}
	config, err := os.ReadFile(filepath.Join(dir, "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range [][3]string{
		{`"n_head": 2`, `"n_head": 4`, "n_head is 4, but by shoal_run_file it is 2"},
		{`"model_type": "gpt2"`, `"model_type": "vit"`, "model_type is vit"},
		{`"tie_word_embeddings": true`, `"tie_word_embeddings": false`, "tie_word_embeddings is false"},
	} {
		if err := os.WriteFile(filepath.Join(dir, "config.json"), bytes.Replace(config, []byte(c[0]), []byte(c[1]), 1), 0o600); err != nil {
			t.Fatal(err)
		}
		if code, _, errs := command(t, "sample", dir); code != exitWrongInput || !strings.Contains(errs, c[2]) {
			t.Errorf("config.json with %s: exit code %d, %q", c[1], code, errs)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "config.json"), config, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range [][]string{
		{"sample", dir, "--tokens", "-1"}, {"sample", dir, "--top-k", "-1"}, {"sample", dir, "--temperature", "-1"},
		{"sample", dir, "--temperature", "hot"}, {"eval", dir, "--kernel", "abacus"}, {"eval", dir, "--cores", "-1"},
	} {
		if code, _, errs := command(t, c...); code != exitWrongInput || !strings.HasPrefix(errs, "shoal: "+c[2]+": ") {
			t.Errorf("%q: exit code %d, %q", c, code, errs)
		}
	}
	if code, _, errs := command(t, "sample", t.TempDir()); code != exitWrongInput || strings.Count(errs, "\n") != 1 {
		t.Errorf("an empty folder: exit code %d, %q", code, errs)
	}
}
