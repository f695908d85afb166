package fsdp

import (
	"fmt"
	"strings"
	"testing"

	"shoal/internal/golden"
	"shoal/kernel"
	"shoal/kernel/ref"
	"shoal/model"
	"shoal/model/gpt"
)

// ladders are token sequences that climb by a step of their own and end early, each at its own length: what follows is
// padding. So microbatches have different counts of labels.
type ladders struct{ n, context, vocab int }

func (d ladders) Len() int         { return d.n }
func (d ladders) Spec() model.Spec { return model.Spec{Tokens: d.context, Labels: d.context} }
func (d ladders) Read(indices []int, b *model.Batch) error {
	b.N, b.Tokens, b.Labels = len(indices), nil, nil
	for _, i := range indices {
		start, step, length := i*i%d.vocab, 1+i%3, 1+i*5%d.context
		for t := range d.context {
			b.Tokens = append(b.Tokens, int32((start+t*step)%d.vocab))
			label := int32(-1)
			if t < length {
				label = int32((start + (t+1)*step) % d.vocab)
			}
			b.Labels = append(b.Labels, label)
		}
	}
	return nil
}

// language is base with a gpt.
func language(t testing.TB) setup {
	c := gpt.Config{Vocab: 11, Context: 9, Dim: 16, Depth: 3, Heads: 2}
	m, err := gpt.New(c)
	if err != nil {
		t.Fatal(err)
	}
	s := base(t)
	s.model, s.train, s.eval = m, ladders{100, c.Context, c.Vocab}, ladders{30, c.Context, c.Vocab}
	return s
}

// goldenGPTHash is goldenHash for the gpt of these tests.
const goldenGPTHash = "5cd32c1b6e8f0a00e5debb1661fed2b9219fab59d2cff6c07875637d72c6825e"

// A gpt ends with the same bits however it is sharded, its tied and its frozen tensors too.
func TestOneRunOneHashGPT(t *testing.T) {
	want := language(t).mustRun(t)[0]
	if want.StateHash != goldenGPTHash {
		t.Errorf("state hash %s, want %s: a change moved the numbers", want.StateHash, goldenGPTHash)
	}
	if first, last := want.Losses[0], want.Losses[len(want.Losses)-1]; !(last < first) {
		t.Errorf("loss went from %v to %v: it should fall", first, last)
	}
	frozen := func(name string) bool { return name == "wte.weight" || name == "h.1.attn.c_attn.weight" }
	s := language(t)
	s.frozen = frozen
	wantFrozen := s.mustRun(t)[0]
	if wantFrozen.StateHash == want.StateHash {
		t.Error("freezing changes nothing")
	}
	cases := []struct {
		name   string
		change func(*setup)
	}{
		{"on the scalar device", func(s *setup) { s.device = func(testing.TB) kernel.Device { return ref.New() } }},
		{"2 peers", func(s *setup) { s.weights = []int64{1, 1} }},
		{"3 peers", func(s *setup) { s.weights = []int64{1, 1, 1} }},
		{"weights 5,1,1", func(s *setup) { s.weights = []int64{5, 1, 1} }},
		{"zero2", func(s *setup) { s.strategy, s.weights = Zero2, []int64{1, 2} }},
		{"zero1", func(s *setup) { s.strategy, s.weights = Zero1, []int64{1, 2} }},
		{"ddp", func(s *setup) { s.strategy, s.weights = DDP, []int64{1, 1, 1} }},
		{"reshard false, recompute", func(s *setup) { s.keep, s.recompute, s.weights = true, RecomputeAlways, []int64{3, 1, 2} }},
	}
	for _, c := range cases {
		for name, f := range map[string]func(string) bool{"": nil, ", frozen": frozen} {
			t.Run(c.name+name, func(t *testing.T) {
				t.Parallel()
				s, want := language(t), want
				if s.frozen = f; f != nil {
					want = wantFrozen
				}
				c.change(&s)
				for _, got := range s.mustRun(t) {
					same(t, want, got)
				}
			})
		}
	}
}

// goldenText is the data of a golden of model/gpt, see scripts/goldens/gpt.py.
type goldenText struct {
	Config         gpt.Config
	Tokens, Labels []int32
	Frozen         struct {
		Names []string
		golden.Course
	}
}

func (d *goldenText) Len() int { return len(d.Tokens) / d.Config.Context }
func (d *goldenText) Spec() model.Spec {
	return model.Spec{Tokens: d.Config.Context, Labels: d.Config.Context}
}
func (d *goldenText) Read(indices []int, b *model.Batch) error {
	b.N, b.Tokens, b.Labels = len(indices), nil, nil
	t := d.Config.Context
	for _, i := range indices {
		b.Tokens = append(b.Tokens, d.Tokens[i*t:(i+1)*t]...)
		b.Labels = append(b.Labels, d.Labels[i*t:(i+1)*t]...)
	}
	return nil
}

// The engine's steps are PyTorch's: tied head, clipping, four microbatches a step with different counts of labels, with
// and without frozen parameters, on one peer and on three, with integer sums and float sums.
func TestGoldenGPT(t *testing.T) {
	for _, name := range []string{"small", "odd"} {
		d := &goldenText{}
		g := golden.Load(t, "../model/gpt/testdata/"+name, d)
		m, err := gpt.New(d.Config)
		if err != nil {
			t.Fatal(err)
		}
		initial := map[string][]float32{}
		for _, p := range golden.Params(m) {
			initial[p.Name] = g.Param(t, p)
		}
		frozen, err := FrozenBy(strings.Join(d.Frozen.Names, " "))
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			name   string
			frozen func(string) bool
			want   *golden.Course
		}{{"all", nil, &g.Course}, {"frozen", frozen, &d.Frozen.Course}} {
			for _, in := range []struct {
				weights []int64
				reduce  Format
			}{{[]int64{1}, Fixed32}, {[]int64{2, 1, 1}, Fixed32}, {[]int64{2, 1, 1}, Float32}} {
				t.Run(fmt.Sprintf("%s %s %v %s", name, c.name, in.weights, in.reduce), func(t *testing.T) {
					s := setup{weights: in.weights, model: m, train: d, frozen: c.frozen, strategy: FSDP, recompute: RecomputeNever,
						params: kernel.F32, device: fast}
					s.hyper = Hyper{Steps: g.Steps, Batch: g.Batch, Microbatch: g.Batch / 4, LR: float64(g.LR[g.Steps-1]),
						Schedule: "constant", Warmup: g.Warmup, WeightDecay: g.WeightDecay, Clip: g.Clip,
						Beta1: g.Beta1, Beta2: g.Beta2, Eps: g.Eps, Seed: 1, Reduce: in.reduce}
					s.started = func(e *Engine) { upload(e, initial) }
					clipped := 0
					s.progress = func(o *Outcome, _ []float64, _ []StepHash) {
						if o.Kind != EntryCommit {
							return
						}
						c.want.Like(t, o.Step, o.Loss, o.Norm)
						if o.Norm > g.Clip {
							clipped++
						}
					}
					s.mustRun(t)
					if clipped < 3 {
						t.Errorf("%d of %d steps are clipped: this shows little", clipped, g.Steps)
					}
				})
			}
		}
	}
}

// upload gives a member of a sharded run its part of the initial parameters.
func upload(e *Engine, initial map[string][]float32) {
	for _, u := range e.units {
		u.own.each(&u.UnitLayout, func(s Span, off, n, at int) {
			v := initial[s.Param.Name][off-s.Off:][:n]
			e.dev.Upload(u.own.p.Slice(at, n), kernel.Bytes(v))
		})
	}
}
