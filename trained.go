package shoal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"

	"shoal/fsdp"
	"shoal/internal/runfile"
	"shoal/internal/safetensors"
	"shoal/kernel"
	"shoal/kernel/cpu"
	"shoal/kernel/ref"
	"shoal/model"
	"shoal/model/gpt"
)

// Trained is a model in a folder that a run wrote (Config.Out).
type Trained struct {
	// OtherData lets Evaluate use other data than those that the run learned from.
	OtherData bool

	task   *task
	config modelConfig
	file   *safetensors.File
}

// OpenTrained opens the model in dir and checks that it has every tensor of the network that its config.json names.
func OpenTrained(dir string) (*Trained, error) {
	text, err := os.ReadFile(filepath.Join(dir, configFile))
	if err != nil {
		return nil, fmt.Errorf("no trained model: %w", err)
	}
	t := &Trained{task: &task{}}
	if err := json.Unmarshal(text, &t.config); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, configFile), err)
	}
	if t.config.RunFile == "" {
		return nil, fmt.Errorf("%s has no shoal_run_file: it was not written by shoal", filepath.Join(dir, configFile))
	}
	if t.task.run, err = runfile.Parse([]byte(t.config.RunFile)); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, configFile), err)
	}
	if t.task.run.Model.Type == runfile.Custom {
		return nil, fmt.Errorf("%s is a Go program's own model: only that program can run it", dir)
	}
	if err := t.config.agrees(t.task.run.Model); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, configFile), err)
	}
	if t.task.model, err = buildModel(t.task.run.Model); err != nil {
		return nil, err
	}
	if t.task.frozen, err = fsdp.FrozenBy(t.task.run.Train.Frozen); err != nil {
		return nil, err
	}
	t.task.data = noSamples{t.task.model}
	if t.file, err = safetensors.Open(filepath.Join(dir, modelFile)); err != nil {
		return nil, err
	}
	if err := t.check(); err != nil {
		t.file.Close()
		return nil, err
	}
	return t, nil
}

func (t *Trained) check() error {
	for _, u := range t.task.model.Units() {
		for _, p := range u.Params {
			got, ok := t.file.Tensor(p.Name)
			if !ok || got.DType != safetensors.F32 || !slices.Equal(got.Shape, p.Shape) {
				return fmt.Errorf("%s: tensor %s is missing, or not F32 of shape %v", modelFile, p.Name, p.Shape)
			}
		}
	}
	return nil
}

// Close closes the model's file.
func (t *Trained) Close() error { return t.file.Close() }

// read fills dst with a tensor's values from element first on.
func (t *Trained) read(name string, first int, dst []float32) error {
	return t.file.ReadAt(name, first, kernel.Bytes(dst))
}

// Evaluation is what a trained model does on held-out samples.
type Evaluation struct {
	Accuracy float64 // share of the labels that it predicts
	Loss     float64 // mean over the labels
	Labels   int64

	// OtherData says in what way the data are other ones than the run's; empty if they are the same.
	OtherData string
}

// Evaluate repeats the evaluation at the end of the run, on the data in cfg.Files.
// It fails if the parameters are not those that the run ended with, and on other data unless OtherData allows them.
func (t *Trained) Evaluate(ctx context.Context, cfg Config) (*Evaluation, error) {
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	full, err := newTask(ctx, t.task.run, cfg)
	if err != nil {
		return nil, configError(ctx, err)
	}
	defer full.close()
	if full.eval == nil && full.run.Data.Eval > 0 {
		return nil, &ConfigError{"data", fmt.Errorf("%s is too short to hold anything out: there is nothing to evaluate on", full.run.Data.Source)}
	}
	if full.eval == nil {
		return nil, fmt.Errorf("the run file holds nothing out (data.eval: 0)")
	}
	other := ""
	if got, want := full.identity(), t.config.Data; got != nil && want != nil {
		other = want.Compare(*got)
	}
	if other != "" && !t.OtherData {
		return nil, &ConfigError{"data", fmt.Errorf("these are not the data that the run learned from: %s (--other-data evaluates on them all the same)", other)}
	}
	dev, err := cpu.New(cpu.Config{Threads: cfg.Cores, Path: cfg.Kernel})
	if err != nil {
		return nil, err
	}
	defer dev.Close()
	res, err := t.end(ctx, dev, full)
	if err != nil {
		return nil, err
	}
	return &Evaluation{Accuracy: float64(res.Correct) / float64(res.EvalCount), Loss: res.EvalLoss, Labels: res.EvalCount,
		OtherData: other}, nil
}

// end repeats the end of the run, after its last step: the evaluation, if full has samples for it, and the state hash,
// which must be the run's.
func (t *Trained) end(ctx context.Context, dev kernel.Device, full *task) (*fsdp.Result, error) {
	res, err := full.withParameters(ctx, dev, t.read)
	if err == nil && res.StateHash != t.config.StateHash {
		err = fmt.Errorf("%s has state hash %s, %s says %s: the parameters were changed, or the two files are not of one run",
			modelFile, res.StateHash, configFile, t.config.StateHash)
	}
	return res, err
}

// withParameters is a run of no steps on one peer whose parameters are those that read gives.
func (t *task) withParameters(ctx context.Context, dev kernel.Device, read func(name string, first int, dst []float32) error) (*fsdp.Result, error) {
	c := t.training()
	c.Hyper.Steps, c.Device, c.Initial = 0, dev, read
	d := &fsdp.Decider{Layout: fsdp.NewLayout(c.Model, c.Frozen), Hyper: c.Hyper,
		BatchSize: func(step int) int { return len(t.order(step)) }}
	mesh := fsdp.NewLocalMesh(d.Layout, []int64{1}, 0, d.Decide)
	var err error
	if c.Start, err = mesh.Enter(ctx, 0); err != nil {
		return nil, err
	}
	c.Comm = mesh.Comm(0)
	e, err := fsdp.NewEngine(c)
	if err != nil {
		return nil, err
	}
	return e.Run(ctx)
}

// noSamples stands for the training data where nobody trains.
type noSamples struct{ model model.Model }

func (n noSamples) Len() int         { return 1 }
func (n noSamples) Spec() model.Spec { return n.model.Sample() }
func (n noSamples) Read([]int, *model.Batch) error {
	return errors.New("a trained model has no samples of its own")
}

// Sampling says how a text is continued.
type Sampling struct {
	Prompt      string
	Tokens      int     // bytes to add
	Temperature float64 // 0 always takes the likeliest byte
	TopK        int     // choose among so many of the likeliest bytes; 0 means all
	Seed        uint64  // another seed, another text
}

// Sample continues a text by a byte-level language model: it writes the prompt, and each further byte as it comes. It
// writes nothing if the parameters are not those that the run ended with.
func (t *Trained) Sample(ctx context.Context, w io.Writer, s Sampling) error {
	g, ok := t.task.model.(*gpt.Model)
	if !ok || g.Config().Vocab != 256 {
		return fmt.Errorf("this model is no language model of bytes: only those can continue a text")
	}
	switch {
	case s.Tokens < 0:
		return &ConfigError{"tokens", fmt.Errorf("%d is not allowed here, use 0 or more", s.Tokens)}
	case s.TopK < 0:
		return &ConfigError{"top-k", fmt.Errorf("%d is not allowed here, use 1 or more, or 0 for all", s.TopK)}
	case !(s.Temperature >= 0 && s.Temperature <= 100):
		return &ConfigError{"temperature", fmt.Errorf("%v is not allowed here, use 0 to 100", s.Temperature)}
	}
	dev, err := cpu.New(cpu.Config{})
	if err != nil {
		return err
	}
	defer dev.Close()
	if _, err := t.end(ctx, dev, t.task); err != nil {
		return err
	}
	params, err := t.load(dev)
	if err != nil {
		return err
	}
	if _, err := io.WriteString(w, s.Prompt); err != nil {
		return err
	}
	text := []byte(s.Prompt)
	if len(text) == 0 {
		text = []byte("\n")
	}
	key := ref.Hash64(s.Seed, "sample")
	for i := range s.Tokens {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		scores, err := nextScores(dev, g, params, text[max(0, len(text)-g.Config().Context):])
		if err != nil {
			return err
		}
		if slices.ContainsFunc(scores, func(v float32) bool { return v-v != 0 }) { // NaN or infinite
			return fmt.Errorf("after %d bytes the model's scores are no numbers: its training went astray, see the report's losses", i)
		}
		next := pick(scores, s, float64(ref.Counter(key, uint64(i))>>11)/(1<<53))
		text = append(text, next)
		if _, err := w.Write([]byte{next}); err != nil {
			return err
		}
	}
	return nil
}

// load brings all parameters to the device, rounded as the run's stages saw them.
func (t *Trained) load(dev kernel.Device) (map[string]kernel.Buffer, error) {
	params := map[string]kernel.Buffer{}
	for _, u := range t.task.model.Units() {
		for _, p := range u.Params {
			v := make([]float32, p.Len())
			if err := t.read(p.Name, 0, v); err != nil {
				return nil, err
			}
			if t.task.paramType() == kernel.BF16 {
				for i := range v {
					v[i] = ref.FromBF16(ref.ToBF16(v[i]))
				}
			}
			params[p.Name] = dev.Alloc(kernel.Parameters, kernel.F32, len(v))
			dev.Upload(params[p.Name], kernel.Bytes(v))
		}
	}
	return params, dev.Sync()
}

// nextScores are the model's scores of each byte after text, which is not empty and at most a context long.
func nextScores(dev kernel.Device, g *gpt.Model, params map[string]kernel.Buffer, text []byte) ([]float32, error) {
	c := g.Config()
	b := &model.Batch{N: 1, Tokens: make([]int32, c.Context), Labels: make([]int32, c.Context)}
	for i := range b.Labels {
		b.Labels[i] = -1
	}
	for i, x := range text {
		b.Tokens[i] = int32(x)
	}
	in := model.UploadBatch(dev, b)
	defer in.Free(dev)
	var x, y kernel.Buffer
	stages := g.Stages()
	for i, st := range stages {
		ctx := model.NewCtx(dev, in)
		var p []kernel.Buffer
		for _, name := range st.Params {
			p = append(p, params[name])
		}
		if i < len(stages)-1 {
			y = st.Layer.Forward(ctx, p, x)
		} else {
			y = g.Logits(ctx, p, x)
		}
		ctx.EndCall()
		ctx.Drop()
		dev.Free(x)
		x = y
	}
	defer dev.Free(x)
	scores := make([]float32, c.Vocab)
	return scores, dev.Download(kernel.Bytes(scores), x.Slice((len(text)-1)*c.Vocab, c.Vocab))
}

// pick chooses a byte by its score; u is uniform in [0, 1).
func pick(scores []float32, s Sampling, u float64) byte {
	order := make([]int, len(scores))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case scores[a] > scores[b]:
			return -1
		case scores[a] < scores[b]:
			return 1
		}
		return 0
	})
	if s.Temperature == 0 {
		return byte(order[0])
	}
	if s.TopK > 0 {
		order = order[:min(s.TopK, len(order))]
	}
	weights, sum := make([]float64, len(order)), 0.0
	for i, o := range order {
		weights[i] = math.Exp(float64(scores[o]-scores[order[0]]) / s.Temperature)
		sum += weights[i]
	}
	for i, w := range weights {
		if u -= w / sum; u < 0 {
			return byte(order[i])
		}
	}
	return byte(order[len(order)-1])
}
