package shoal

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"shoal/internal/data"
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

func newOutput(dir string, m model.Model) (*output, error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, fmt.Errorf("folder for the model: %w", err)
	}
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

// finish makes the files visible: the model first, then its description.
func (o *output) finish(t *task, runID, stateHash string) error {
	if err := o.write(t, runID, stateHash); err != nil {
		return fmt.Errorf("the trained model was not written: %w", err)
	}
	return nil
}

func (o *output) write(t *task, runID, stateHash string) error {
	if o.err != nil {
		return o.err
	}
	run := t.run
	run.Data.Path = "" // of this machine, nobody else's business
	c := describeModel(run.Model)
	c.RunFile, c.RunID, c.StateHash, c.Data = string(runfile.Marshal(run)), runID, stateHash, t.identity()
	text, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return err
	}
	if err := o.file.Close(); err != nil {
		return err
	}
	path := filepath.Join(o.dir, configFile)
	return errors.Join(os.WriteFile(path+".part", append(text, '\n'), 0o666), os.Rename(path+".part", path))
}

// abort forgets what was written of a model that is not whole.
func (o *output) abort() { o.file.Abort() }
