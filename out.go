package shoal

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"shoal/internal/data"
	"shoal/internal/report"
	"shoal/internal/runfile"
	"shoal/internal/safetensors"
	"shoal/kernel"
	"shoal/model"
)

// The files of a trained model's folder.
const (
	modelFile  = "model.safetensors"
	configFile = "config.json"
)

// modelConfig is config.json: the usual keys of a GPT-2, so that other programs can load the model, and what Shoal needs
// to go on with it.
type modelConfig struct {
	ModelType  string `json:"model_type"`
	VocabSize  int    `json:"vocab_size,omitempty"`
	Positions  int    `json:"n_positions,omitempty"`
	Width      int    `json:"n_embd,omitempty"`
	Layers     int    `json:"n_layer,omitempty"`
	Heads      int    `json:"n_head,omitempty"`
	Activation string `json:"activation_function,omitempty"`
	Tied       bool   `json:"tie_word_embeddings,omitempty"`

	RunFile   string         `json:"shoal_run_file"`
	RunID     string         `json:"shoal_run_id"`
	StateHash string         `json:"shoal_state_hash"`
	Data      *data.Identity `json:"shoal_data,omitempty"` // the files that it learned from
}

// describeModel gives the keys that other programs read.
func describeModel(m runfile.Model) modelConfig {
	if m.Type != "gpt" {
		return modelConfig{ModelType: m.Type}
	}
	return modelConfig{ModelType: "gpt2", Activation: "gelu_new", Tied: true,
		VocabSize: m.Vocab, Positions: m.Context, Width: m.Dim, Layers: m.Depth, Heads: m.Heads}
}

// agrees says which key contradicts the run file inside, which has the last word.
func (c modelConfig) agrees(m runfile.Model) error {
	want := describeModel(m)
	for _, k := range []struct {
		key       string
		got, want any
	}{
		{"model_type", c.ModelType, want.ModelType},
		{"vocab_size", c.VocabSize, want.VocabSize},
		{"n_positions", c.Positions, want.Positions},
		{"n_embd", c.Width, want.Width},
		{"n_layer", c.Layers, want.Layers},
		{"n_head", c.Heads, want.Heads},
		{"activation_function", c.Activation, want.Activation},
		{"tie_word_embeddings", c.Tied, want.Tied},
	} {
		if k.got != k.want {
			return fmt.Errorf("%s is %v, but by shoal_run_file it is %v: the file was changed", k.key, k.got, k.want)
		}
	}
	return nil
}

// output writes the final model into a folder while it comes in, unit by unit. Nothing that was there before is touched
// until the run is done.
type output struct {
	dir   string
	file  *safetensors.Writer
	began func() // called before the first tensor, if set
	err   error  // the first one: the run goes on without this peer's copy
}

// checkOut says why the model's files can't be put into dir, as far as one can know before training, and removes what runs
// that were killed left there.
func checkOut(dir string, m model.Model) error {
	for _, name := range []string{modelFile, configFile} {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
			return &ConfigError{"out", fmt.Errorf("%s is no file, but the model's %s goes there: choose another folder", path, name)}
		}
		if err := safetensors.RemoveStale(path); err != nil {
			return &ConfigError{"out", fmt.Errorf("what an earlier run left behind: %w", err)}
		}
	}
	need := int64(1 << 16) // headers and config.json
	for _, u := range m.Units() {
		for _, p := range u.Params {
			need += 4 * int64(p.Len())
		}
	}
	if free, ok := freeBytes(dir); ok && free < need {
		return &ConfigError{"out", fmt.Errorf("the model needs %s, and the disk of %s has %s left", report.Bytes(need), dir, report.Bytes(free))}
	}
	return nil
}

// newOutput begins the model's file in dir, which checkOut has passed.
func newOutput(dir string, m model.Model) (*output, error) {
	var list []safetensors.Tensor
	for _, u := range m.Units() {
		for _, p := range u.Params {
			list = append(list, safetensors.Tensor{Name: p.Name, DType: safetensors.F32, Shape: p.Shape})
		}
	}
	f, err := safetensors.Create(filepath.Join(dir, modelFile), list, map[string]string{"format": "pt"})
	if err != nil {
		return nil, err
	}
	return &output{dir: dir, file: f}, nil
}

// add takes a tensor. Where it can't be written, the others still need this peer to the end of the run.
func (o *output) add(p model.Param, values []float32) error {
	if o.began != nil {
		o.began()
		o.began = nil
	}
	if o.err == nil {
		o.err = o.addAt(p, 0, values)
	}
	return nil
}

// addAt takes a tensor's values from element first on.
func (o *output) addAt(p model.Param, first int, values []float32) error {
	return o.file.WriteAt(p.Name, first, kernel.Bytes(values))
}

// finish makes the files visible, both of them once they are on disk. If it is interrupted between the two, the state hash
// in config.json is not that of the model, which whoever opens it checks.
func (o *output) finish(run RunFile, learned *data.Identity, runID, stateHash string) error {
	if err := o.write(run, learned, runID, stateHash); err != nil {
		return fmt.Errorf("the trained model was not written: %w", err)
	}
	return nil
}

func (o *output) write(run RunFile, learned *data.Identity, runID, stateHash string) error {
	if o.err != nil {
		return o.err
	}
	run.Data.Path = "" // of this machine, nobody else's business
	c := describeModel(run.Model)
	c.RunFile, c.RunID, c.StateHash, c.Data = string(runfile.Marshal(run)), runID, stateHash, learned
	text, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return err
	}
	path := filepath.Join(o.dir, configFile)
	part, err := writePart(path, append(text, '\n'))
	if err != nil {
		return err
	}
	defer os.Remove(part) // it is gone if all went well
	if err := o.file.Close(); err != nil {
		return err
	}
	if err := os.Rename(part, path); err != nil {
		return err
	}
	return safetensors.SyncFolder(o.dir)
}

// writePart writes a file beside path, named as those of the model that are not whole, and waits until it is on disk.
func writePart(path string, text []byte) (part string, err error) {
	part = path + ".part" + rand.Text()
	f, err := os.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return "", err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		os.Remove(part)
		return "", err
	}
	return part, nil
}

// abort forgets what was written of a model that is not whole.
func (o *output) abort() { o.file.Abort() }
