// Package runfile reads and writes run files: the YAML that says what a run trains, and how. docs/run-file.md has every
// key. The package knows nothing of models or networks: it holds plain numbers, and says which of them are allowed.
package runfile

// Run is a run file. Default says what a key is when it is missing; the doc of each field says what it means, and
// fields.go what is allowed.
type Run struct {
	Name       string     `yaml:"name"`
	Model      Model      `yaml:"model"`
	Data       Data       `yaml:"data"`
	Train      Train      `yaml:"train"`
	Mesh       Mesh       `yaml:"mesh"`
	Precision  Precision  `yaml:"precision"`
	Wire       Wire       `yaml:"wire"`
	Checkpoint Checkpoint `yaml:"checkpoint"`
}

// The values of Model.Type and Data.Source with which a Go program brings its own. The other keys of the section are
// then zero.
const Custom = "custom"

// Model is the network: a vision transformer or a language model.
type Model struct {
	Type     string `yaml:"type"`     // "vit", "gpt" or Custom
	Image    int    `yaml:"image"`    // vit: width and height of an image in pixels
	Patch    int    `yaml:"patch"`    // vit: width and height of a patch in pixels; divides Image
	Channels int    `yaml:"channels"` // vit: values per pixel
	Dim      int    `yaml:"dim"`      // width of a token
	Depth    int    `yaml:"depth"`    // blocks
	Heads    int    `yaml:"heads"`    // attention heads; divides Dim
	Classes  int    `yaml:"classes"`  // vit: what it tells apart
	Vocab    int    `yaml:"vocab"`    // gpt: tokens that there are
	Context  int    `yaml:"context"`  // gpt: tokens of a sample
}

// Data is what the network learns from.
type Data struct {
	Source  string `yaml:"source"`  // "digits", "mnist", "text", "tokens" or Custom
	Path    string `yaml:"path"`    // of the files on this machine: a folder for mnist, else a file; no part of the run
	Samples int    `yaml:"samples"` // digits: training samples in an epoch; of files, all are used
	Eval    int    `yaml:"eval"`    // held-out samples, at most as many as files have; 0 means no evaluation
	Seed    uint64 `yaml:"seed"`    // digits: which ones are drawn
	Width   int    `yaml:"width"`   // tokens: bits of each, 16 or 32
}

// Files says whether the data are files, which a peer has or gets from others.
func (d *Data) Files() bool { return d.Source == "mnist" || d.Source == "text" || d.Source == "tokens" }

// SetSource sets the data's source. Another one than before begins with the defaults that it has.
func (r *Run) SetSource(source string) {
	if r.Data.Source != source {
		r.Data = everything().Data
		r.Data.Source = source
		r.clearOff()
	}
}

// SetModel sets the model's type. Another one than before begins with the defaults that it has.
func (r *Run) SetModel(kind string) {
	if r.Model.Type != kind {
		r.Model = everything().Model
		r.Model.Type = kind
		r.clearOff()
	}
}

// clearOff empties the keys that have no meaning in r.
func (r *Run) clearOff() {
	list := fields(r)
	for i := range list {
		if list[i].off {
			list[i].clear()
		}
	}
}

// Train is how it learns: AdamW with decoupled weight decay.
type Train struct {
	Steps       int     `yaml:"steps"`
	Batch       int     `yaml:"batch"`      // samples in a global batch
	Microbatch  int     `yaml:"microbatch"` // samples in a microbatch, the piece of work that is given to a peer
	LR          float64 `yaml:"lr"`         // highest learning rate
	MinLR       float64 `yaml:"min_lr"`     // where a cosine schedule ends
	Schedule    string  `yaml:"schedule"`   // "cosine" or "constant"
	Warmup      int     `yaml:"warmup"`     // steps in which the rate climbs to LR
	Beta1       float64 `yaml:"beta1"`
	Beta2       float64 `yaml:"beta2"`
	Eps         float64 `yaml:"eps"`
	WeightDecay float64 `yaml:"weight_decay"` // not on norms and biases
	Clip        float64 `yaml:"clip"`         // largest norm of the gradient; 0 means no limit
	Seed        uint64  `yaml:"seed"`         // initial parameters and order of the samples
	Frozen      string  `yaml:"frozen"`       // patterns of parameters' names that never change, separated by spaces
}

// Mesh is how the work and the state are shared out.
type Mesh struct {
	Strategy   string `yaml:"strategy"`    // "fsdp", "zero2", "zero1" or "ddp"
	Backups    int    `yaml:"backups"`     // further peers that keep each shard; with ddp all do
	Wrap       string `yaml:"wrap"`        // what a unit is: "block", "layers:K" or "bytes:N"
	Reshard    bool   `yaml:"reshard"`     // drop a unit's parameters between forward and backward
	Recompute  string `yaml:"recompute"`   // "auto", "always" or "never": make activations again in backward
	AuditEvery int    `yaml:"audit_every"` // steps from one comparison of owners and backups to the next; 0 means none
	Timing     string `yaml:"timing"`      // "lan" or "wan": how soon a silent peer counts as lost
	LostAfter  int    `yaml:"lost_after"`  // seconds for which a shard without a living holder is waited for
}

// Precision is the number formats.
type Precision struct {
	Params string `yaml:"params"` // how parameters travel and are computed with: "bf16" or "fp32"
	Reduce string `yaml:"reduce"` // how gradients are summed: "fixed32", "fixed16", "fp32" or "bf16"
}

// Wire is how bytes travel.
type Wire struct {
	Packing string `yaml:"packing"` // lossless compression: "auto", "on" or "off"
}

// Checkpoint is how often the run's state is kept on disk. Each peer is told where by itself.
type Checkpoint struct {
	Every int `yaml:"every"` // steps from one checkpoint to the next; 0 means none
	Keep  int `yaml:"keep"`  // how many of the newest ones stay
}

// Default is the run that trains a vision transformer on digits.
func Default() Run {
	r := everything()
	r.clearOff()
	return r
}

// everything has the default of every key, also of those that have no meaning in the default run.
func everything() Run {
	return Run{
		Name:  "digits",
		Model: Model{Type: "vit", Image: 28, Patch: 7, Channels: 1, Dim: 64, Depth: 12, Heads: 4, Classes: 10, Vocab: 256, Context: 128},
		Data:  Data{Source: "digits", Samples: 60000, Eval: 2000, Seed: 1, Width: 16},
		Train: Train{
			Steps: 450, Batch: 64, Microbatch: 8, LR: 2e-3, Schedule: "cosine", Warmup: 20,
			Beta1: 0.9, Beta2: 0.95, Eps: 1e-8, WeightDecay: 0.05, Clip: 1, Seed: 1,
		},
		Mesh:      Mesh{Strategy: "fsdp", Backups: 1, Wrap: "block", Reshard: true, Recompute: "auto", AuditEvery: 50, Timing: "lan", LostAfter: 60},
		Precision: Precision{Params: "bf16", Reduce: "fixed32"},
		Wire:      Wire{Packing: "auto"},

		Checkpoint: Checkpoint{Keep: 2},
	}
}
