package shoal

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	"shoal/fsdp"
	"shoal/internal/data"
	"shoal/internal/dataserve"
	"shoal/internal/place"
	"shoal/internal/runfile"
	"shoal/kernel"
	"shoal/model"
	"shoal/model/gpt"
	"shoal/model/vit"
)

// task is what a run trains: the run file made real.
type task struct {
	run         RunFile
	model       model.Model
	data, eval  Dataset
	chunks      data.ChunkSource       // what data and eval are read from, a *data.Local or *dataserve.Fetcher; nil if they are not files
	fetched     *attemptChunks         // the same, as they are read in training; nil if they are on this machine
	manifest    *data.Manifest         // of chunks
	frozen      func(name string) bool // nil: nothing
	fingerprint string                 // of run file, model and data
	trained     string                 // the same without what has no influence on the result
	resume      *resumePoint           // nil: the run begins afresh
}

// description is what a peer that joins fetches before it is admitted. Its JSON fields are part of the protocol.
type description struct {
	RunFile string         `json:"run_file"`       // without data.path
	Model   string         `json:"model"`          // fingerprint of the task
	Data    *data.Identity `json:"data,omitempty"` // the files that it learns from
	Resume  *resumePoint   `json:"resume,omitempty"`
}

// newTask builds what run and cfg say. Its data can be read until ctx ends.
func newTask(ctx context.Context, run RunFile, cfg Config) (*task, error) {
	return newTaskFrom(ctx, run, cfg, nil)
}

// newTaskFrom is newTask where data whose files are not on this machine come from fetch, unless that is nil.
func newTaskFrom(ctx context.Context, run RunFile, cfg Config, fetch openFetcher) (_ *task, err error) {
	if err := run.Validate(); err != nil {
		return nil, err
	}
	t := &task{run: run, model: cfg.Model, data: cfg.Data, eval: cfg.Eval}
	defer func() {
		if err != nil {
			t.close()
		}
	}()
	if cfg.Model == nil {
		if err := t.build(ctx, cfg, fetch); err != nil {
			return nil, err
		}
	} else if run.Model.Type != runfile.Custom || run.Data.Source != runfile.Custom {
		return nil, fmt.Errorf("the run file says model.type: %s, data.source: %s, but the program brings its own: set both to %q",
			run.Model.Type, run.Data.Source, runfile.Custom)
	}
	if t.data == nil {
		return nil, fmt.Errorf("Config.Model is set but Config.Data is nil")
	}
	own := t.model
	if t.model, t.frozen, err = prepareModel(t.model, run); err != nil {
		return nil, err
	}
	t.fingerprint = t.hash(string(run.Canonical()), t.model)
	t.trained = t.hash(strings.Join(run.Result(), "\n"), own)
	return t, nil
}

// hash is a fingerprint of a run's text, a model and the data.
func (t *task) hash(run string, m model.Model) string {
	h := sha256.New()
	h.Write([]byte(run))
	h.Write([]byte(model.Describe(m)))
	fmt.Fprintf(h, "%d samples", t.data.Len())
	if t.eval != nil {
		fmt.Fprintf(h, ", %d held out", t.eval.Len())
	}
	if id := t.identity(); id != nil {
		fmt.Fprintf(h, ", %v", id)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// prepareModel makes of a model what the run file says of it: its units, and which of its parameters are frozen.
func prepareModel(m model.Model, run RunFile) (wrapped model.Model, frozen func(name string) bool, err error) {
	if err := model.Validate(m); err != nil {
		return nil, nil, err
	}
	if err := fsdp.CheckFrozen(m, run.Train.Frozen); err != nil {
		return nil, nil, fmt.Errorf("train.%w", err) // it says "frozen: ..."
	}
	if frozen, err = fsdp.FrozenBy(run.Train.Frozen); err != nil {
		return nil, nil, err
	}
	wrapped, err = fsdp.Wrap(run.Mesh.Wrap).Apply(m)
	return wrapped, frozen, err
}

// CheckModel says what is wrong with the model of a run file, as far as it can be told without data: a *ConfigError, or nil.
func CheckModel(run RunFile) error {
	if run.Model.Type == runfile.Custom {
		return nil
	}
	m, err := buildModel(run.Model)
	if err == nil {
		_, _, err = prepareModel(m, run)
	}
	if err != nil {
		return &ConfigError{Err: err}
	}
	return nil
}

// build makes the model and the data that the run file names.
func (t *task) build(ctx context.Context, cfg Config, fetch openFetcher) (err error) {
	m := t.run.Model
	if m.Type == runfile.Custom {
		return fmt.Errorf("this run trains a Go program's own model (model.type: %s): join it with that program", runfile.Custom)
	}
	if t.model, err = buildModel(m); err != nil {
		return err
	}
	return t.openData(ctx, cfg, fetch)
}

// buildModel makes the network that the run file names.
func buildModel(m runfile.Model) (model.Model, error) {
	if m.Type == "gpt" {
		return gpt.New(gpt.Config{Vocab: m.Vocab, Context: m.Context, Dim: m.Dim, Depth: m.Depth, Heads: m.Heads})
	}
	return vit.New(vit.Config{Image: m.Image, Patch: m.Patch, Channels: m.Channels, Dim: m.Dim, Depth: m.Depth,
		Heads: m.Heads, Classes: m.Classes})
}

// describe is what others need to build the same task, of a run that goes on from a checkpoint or, where that is nil, begins
// afresh.
func (t *task) describe(from *resumePoint) ([]byte, error) {
	run := t.run
	run.Data.Path = ""
	return json.Marshal(description{RunFile: string(runfile.Marshal(run)), Model: t.fingerprint, Data: t.identity(), Resume: from})
}

// parseDescription is describe's inverse. A program with a model of its own must come to the same fingerprint. fetch, unless
// it is nil, gets data whose files are not on this machine.
func parseDescription(ctx context.Context, b []byte, cfg Config, fetch fetchData) (*task, error) {
	var d description
	if err := json.Unmarshal(b, &d); err != nil {
		return nil, fmt.Errorf("the run's description is not readable (another version of shoal?): %w", err)
	}
	run, err := runfile.Parse([]byte(d.RunFile))
	if err != nil {
		return nil, fmt.Errorf("the run's description is not readable (another version of shoal?): %w", err)
	}
	run.Data.Path = "" // others don't say which of this machine's files to open
	var others openFetcher
	if fetch != nil && d.Data != nil && d.Data.Kind == run.Data.Source {
		others = func(ctx context.Context) (*dataserve.Fetcher, error) { return fetch(ctx, *d.Data) }
	}
	t, err := newTaskFrom(ctx, run, cfg, others)
	if err != nil {
		return nil, err
	}
	if id := t.identity(); id != nil && d.Data != nil {
		if differs := d.Data.Compare(*id); differs != "" {
			t.close()
			return nil, fmt.Errorf("the data here are not those of the run: %s", differs)
		}
	}
	if t.fingerprint != d.Model {
		t.close()
		return nil, fmt.Errorf("this program builds another model or data set than the peer that started the run: use the same program and version")
	}
	t.resume = d.Resume
	return t, nil
}

// newRunID names one start of a task: two starts of one run file never meet.
func (t *task) newRunID() string {
	nonce := make([]byte, 16)
	rand.Read(nonce) // never fails
	h := sha256.Sum256(append([]byte(t.fingerprint), nonce...))
	return hex.EncodeToString(h[:16])
}

// hyper are the training settings of the run file.
func (t *task) hyper() fsdp.Hyper {
	r := t.run.Train
	return fsdp.Hyper{Steps: r.Steps, Microbatch: r.Microbatch, Batch: r.Batch, LR: r.LR, MinLR: r.MinLR, Schedule: r.Schedule,
		Warmup: r.Warmup, WeightDecay: r.WeightDecay, Clip: r.Clip, Beta1: r.Beta1, Beta2: r.Beta2, Eps: r.Eps, Seed: r.Seed,
		HashEvery: hashEvery, Reduce: fsdp.Format(t.run.Precision.Reduce)}
}

// training is what all members' engines have in common.
func (t *task) training() fsdp.Config {
	mesh := t.run.Mesh
	return fsdp.Config{
		Model: t.model, Hyper: t.hyper(), Frozen: t.frozen, AuditEvery: mesh.AuditEvery,
		Strategy: fsdp.Strategy(mesh.Strategy), KeepGathered: !mesh.Reshard, Recompute: fsdp.Recompute(mesh.Recompute),
		ParamType: t.paramType(), Train: t.data, Eval: t.eval, Order: t.order,
	}
}

// backups is how many members are to hold each range beside its owner.
func (t *task) backups() int {
	if t.run.Mesh.Strategy == string(fsdp.DDP) {
		return place.All
	}
	return t.run.Mesh.Backups
}

// copies is how many there are of each range beside its owner's, among so many members.
func (t *task) copies(members int) int {
	if b := t.backups(); b >= 0 {
		return min(b, members-1)
	}
	return members - 1
}

// ranges are what the model is cut into, for the log.
func (t *task) ranges() []place.Range {
	var list []place.Range
	for _, r := range fsdp.NewLayout(t.model, t.frozen).Ranges {
		list = append(list, place.Range{Group: r.Unit, Size: int64(r.N)})
	}
	return list
}

// paramType is the type in which parameters travel and are computed with.
func (t *task) paramType() kernel.DType {
	if t.run.Precision.Params == "fp32" {
		return kernel.F32
	}
	return kernel.BF16
}

// hashEvery is the number of steps between two state hashes in the report.
const hashEvery = 10

// order is the global batch of a step, by index into the data set.
func (t *task) order(step int) []int {
	_, indices := data.Batch(t.run.Train.Seed, t.data.Len(), t.run.Train.Batch, step)
	return indices
}
