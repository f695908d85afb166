package fsdp

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"shoal/kernel"
	"shoal/kernel/ref"
	"shoal/model"
)

// Dataset is a list of samples.
type Dataset interface {
	// Len is the number of samples.
	Len() int
	// Sample says what one sample looks like; it must equal the model's.
	Spec() model.Spec
	// Read fills b with the samples of the given indices, in that order, reusing b's slices.
	Read(indices []int, b *model.Batch) error
}

// Strategy says what is sharded.
type Strategy string

const (
	FSDP  Strategy = "fsdp"  // parameters, gradients and optimizer state (ZeRO-3)
	Zero2 Strategy = "zero2" // gradients and optimizer state; parameters are whole, in the form in which they travel
	Zero1 Strategy = "zero1" // optimizer state
	DDP   Strategy = "ddp"   // nothing
)

// shards says what a strategy shards among members. The float32 master copy of the parameters goes with the state.
type shards struct{ params, gradients, state bool }

var strategies = map[Strategy]shards{
	FSDP:  {params: true, gradients: true, state: true},
	Zero2: {gradients: true, state: true},
	Zero1: {state: true},
	DDP:   {},
}

// Recompute says what a stage keeps for its backward pass. The bits are the same.
type Recompute string

const (
	RecomputeAuto   Recompute = "auto"   // keep inner activations while they fit Config.ActivationBudget
	RecomputeAlways Recompute = "always" // keep only a stage's input
	RecomputeNever  Recompute = "never"  // keep everything
)

// Config is what one member needs to train. Model, Hyper, Weights, Strategy, KeepGathered, ParamType, Order and the
// data sets must be the same on every member.
type Config struct {
	Model   model.Model
	Device  kernel.Device
	Comm    Comm
	Fence   uint64 // of the first attempt
	Hyper   Hyper
	Weights []int64                // per rank: share of the parameters and of the work
	Frozen  func(name string) bool // parameters that never change; nil means none

	Strategy         Strategy
	KeepGathered     bool // keep units from forward to backward (reshard: false)
	Recompute        Recompute
	ActivationBudget int64        // bytes of activations that RecomputeAuto may keep; 0 means 1 GiB
	ParamType        kernel.DType // what parameters travel and are computed as: BF16 or F32

	Train Dataset
	Eval  Dataset              // held-out samples; nil means no evaluation
	Order func(step int) []int // sample indices of step's global batch

	// Initial, if set, gives the initial parameters in place of the model's: it fills dst with a tensor's values from
	// element first on.
	Initial func(name string, first int, dst []float32) error

	// Resume, if set, is what the run goes on from, in place of any initial parameters. Its Position is the same on every
	// member.
	Resume *Resume
	// SaveEvery is the number of steps from one checkpoint to the next, the same on every member; 0 means none. Saver keeps
	// this member's parts of them.
	SaveEvery int
	Saver     Saver

	// Exporting says that some member wants the final parameters; it is the same on every member. Export, on those that
	// do, is called for each tensor in turn with its float32 values, which are valid during the call only.
	Exporting bool
	Export    func(p model.Param, values []float32) error

	Progress func(*Outcome)       // called after each Commit and Retry; may be nil
	Trace    func(Event)          // called from several goroutines; may be nil
	Stats    func(*Result) []byte // this member's row for everybody's report; may be nil
}

// Result is what a run came to. Everything but the member's own part is equal on all members.
type Result struct {
	Losses     []float64
	StepHashes map[int]string // state hash after that many steps
	StateHash  string
	EvalLoss   float64
	EvalCount  int64 // held-out labels
	Correct    int64
	MemberRows [][]byte // what Config.Stats returned, in rank order

	Rank    int
	Owned   int   // parameters in the own shard
	Samples int64 // computed here in committed steps
	Retries int
	Skipped int           // steps without an update because a gradient was not finite
	Wall    time.Duration // first attempt to last commit

	// Bytes at rest are taken between two steps.
	ParameterBytes, GradientBytes, OptimizerBytes int64
}

// MaxWeight is the largest weight of a member.
const MaxWeight = 1 << 40

// Engine is one member's state. It belongs to the goroutine that calls Run; only the Sink is called by others.
type Engine struct {
	cfg     Config
	shards  shards
	dev     kernel.Device
	layout  *Layout
	decider *Decider
	format  format
	rank    int
	units   []*unit
	stages  []model.Stage
	train   walk
	eval    walk
	clock   time.Time
	spare   byteList

	fence    uint64
	exps     []int16
	step     int
	tag      uint32
	inflight *gathering
	nextUnit int
	giving   []lent // staging areas that others may still read from
	sending  []lent // gradients on their way to their owners
	cover    [][]Node
	saved    *savedPart
	res      *Result
	arrivals arrivals
}

// unit is one unit's state on this member.
type unit struct {
	UnitLayout
	lo, hi   int           // trained elements whose state is stored here
	flo, fhi int           // frozen elements that are stored here
	p        kernel.Buffer // [lo, hi), then [flo, fhi)
	m, v     kernel.Buffer // [lo, hi)

	whole kernel.Buffer // without sharded parameters: all of them, in the form in which they travel
	fresh bool          // whole is up to date

	mu      sync.Mutex
	accLo   int
	acc     []int32        // the summed gradient from element accLo on
	given   map[int][]byte // by rank: sums of the own interval that are not in acc yet, see float
	counted int            // microbatches in the own interval of acc

	full kernel.Buffer // the whole unit, F32, while it is gathered
	work kernel.Buffer // the own microbatches' gradient of the trained elements, in the backward pass
}

// stored is the place in p of an element of the unit that is stored here.
func (u *unit) stored(off int) int {
	if off < u.Trained {
		return off - u.lo
	}
	return u.hi - u.lo + off - u.flo
}

// sum is the summed gradient of elements lo to hi, which is stored here.
func (u *unit) sum(lo, hi int) []int32 { return u.acc[lo-u.accLo : hi-u.accLo] }

// NewEngine checks cfg and makes the own shard's initial state.
func NewEngine(cfg Config) (*Engine, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	e := &Engine{
		cfg: cfg, dev: cfg.Device, layout: NewLayout(cfg.Model, cfg.Weights, cfg.Frozen), rank: cfg.Comm.Rank(),
		stages: cfg.Model.Stages(), fence: cfg.Fence, clock: time.Now(), spare: byteList{},
		res: &Result{StepHashes: map[int]string{}, Rank: cfg.Comm.Rank()},
	}
	if len(cfg.Weights) > 1 {
		e.shards = strategies[cfg.Strategy]
	}
	e.decider = &Decider{Layout: e.layout, Hyper: cfg.Hyper, BatchSize: func(s int) int { return len(cfg.Order(s)) }}
	e.format = newFormat(&e.cfg.Hyper, e.layout, e.dev.Meter())
	if r := cfg.Resume; r != nil {
		if err := r.Position.check(&cfg.Hyper, len(e.layout.Tensors)); err != nil {
			return nil, err
		}
		e.decider.Start = &r.Position
		e.res.Losses = slices.Clone(r.Losses)
		maps.Copy(e.res.StepHashes, r.StepHashes)
	}
	e.step, _, _, _, e.exps = e.decider.next(nil)
	var units []int
	for _, s := range e.stages {
		units = append(units, s.Unit)
	}
	e.train = newWalk(units, true, cfg.KeepGathered)
	e.eval = newWalk(units, false, false)
	for i := range e.layout.Units {
		u := e.newUnit(&e.layout.Units[i])
		if err := e.begin(u); err != nil {
			return nil, err
		}
		e.units = append(e.units, u)
	}
	e.res.Owned = e.layout.Owned(e.rank)
	meter := e.dev.Meter()
	e.res.ParameterBytes = meter.Live(kernel.Parameters)
	e.res.GradientBytes = meter.Live(kernel.Gradients)
	e.res.OptimizerBytes = meter.Live(kernel.Optimizer)
	return e, e.dev.Sync()
}

func (c *Config) validate() error {
	if err := model.Validate(c.Model); err != nil {
		return err
	}
	if len(c.Weights) != c.Comm.Size() {
		return fmt.Errorf("fsdp: %d weights for %d members", len(c.Weights), c.Comm.Size())
	}
	for r, w := range c.Weights {
		if w < 1 || w > MaxWeight {
			return fmt.Errorf("fsdp: weight %d of rank %d: want 1 to %d", w, r, int64(MaxWeight))
		}
	}
	if err := c.Hyper.Reduce.valid(); err != nil {
		return err
	}
	if _, ok := strategies[c.Strategy]; !ok {
		return fmt.Errorf("fsdp: strategy %q: want fsdp, zero2, zero1 or ddp", c.Strategy)
	}
	if c.Recompute != RecomputeAuto && c.Recompute != RecomputeAlways && c.Recompute != RecomputeNever {
		return fmt.Errorf("fsdp: recompute %q: want auto, always or never", c.Recompute)
	}
	if c.ParamType == kernel.I32 {
		return fmt.Errorf("fsdp: parameters travel as bf16 or fp32, not %v", c.ParamType)
	}
	if got, want := c.Train.Spec(), c.Model.Sample(); got != want {
		return fmt.Errorf("fsdp: the data has %+v per sample, the model wants %+v", got, want)
	}
	if c.Train.Len() == 0 {
		return fmt.Errorf("fsdp: the data set is empty")
	}
	if c.ActivationBudget == 0 {
		c.ActivationBudget = 1 << 30
	}
	return nil
}

// newUnit allocates what this member stores of u.
func (e *Engine) newUnit(u *UnitLayout) *unit {
	x := &unit{UnitLayout: *u, hi: u.Trained, flo: u.Trained, fhi: u.Len, given: map[int][]byte{}}
	if e.shards.state {
		x.lo, x.hi = u.Cuts[e.rank], u.Cuts[e.rank+1]
		x.flo, x.fhi = u.FrozenCuts[e.rank], u.FrozenCuts[e.rank+1]
	}
	n := x.hi - x.lo
	x.p = e.dev.Alloc(kernel.Parameters, kernel.F32, n+x.fhi-x.flo)
	x.m = e.dev.Alloc(kernel.Optimizer, kernel.F32, n)
	x.v = e.dev.Alloc(kernel.Optimizer, kernel.F32, n)
	e.dev.Zero(x.m)
	e.dev.Zero(x.v)
	accHi := u.Trained
	if e.shards.gradients {
		x.accLo, accHi = x.lo, x.hi
	}
	x.acc = make([]int32, accHi-x.accLo)
	e.dev.Meter().Add(kernel.Gradients, int64(4*len(x.acc)))
	if e.shards.state && !e.shards.params {
		x.whole = e.dev.Alloc(kernel.Parameters, e.cfg.ParamType, u.Len)
	}
	return x
}

// begin fills in the initial parameters that are stored here, a piece at a time.
func (e *Engine) begin(u *unit) (err error) {
	chunk := make([]float32, min(u.p.Len, 1<<16))
	initial := func(s Span, off, n int) {
		key := ref.Hash64(e.cfg.Hyper.Seed, s.Param.Name)
		for done := 0; done < n && err == nil; done += len(chunk) {
			c := chunk[:min(len(chunk), n-done)]
			if e.cfg.Resume != nil {
				err = e.cfg.Resume.Read(Params, s.Param.Name, off-s.Off+done, c)
			} else if e.cfg.Initial != nil {
				err = e.cfg.Initial(s.Param.Name, off-s.Off+done, c)
			} else {
				fill(s.Param.Init, key, off-s.Off+done, c)
			}
			e.dev.Upload(u.p.Slice(u.stored(off+done), len(c)), kernel.Bytes(c))
		}
	}
	u.within(u.lo, u.hi, initial)
	u.within(u.flo, u.fhi, initial)
	if err == nil && e.cfg.Resume != nil {
		err = e.loadState(u)
	}
	return err
}

// fill writes the initial values of elements first, first+1, ... of a tensor.
func fill(init model.Init, key uint64, first int, dst []float32) {
	switch init.Kind {
	case model.Zeros:
		clear(dst)
	case model.Ones:
		for i := range dst {
			dst[i] = 1
		}
	case model.Uniform:
		ref.FillUniform(dst, key, first, init.A)
	case model.Normal:
		ref.FillNormal(dst, key, first, init.A)
	}
}

// Run trains to the end. It returns when the run is done, ctx is cancelled or something failed. ctx must be cancelled
// when the mesh ends the run: a wait for gradients that will never come has no other end.
func (e *Engine) Run(ctx context.Context) (*Result, error) {
	start := time.Now()
	defer context.AfterFunc(ctx, func() { e.dev.Cancel(context.Cause(ctx)) })()
	if e.cfg.Hyper.Steps == 0 || e.cfg.Resume != nil {
		if err := e.hash(); err != nil {
			return nil, err
		}
	}
	for {
		if e.step == e.cfg.Hyper.Steps {
			e.res.Wall = time.Since(start)
			e.expect(0)
		} else {
			e.expect(len(microbatches(len(e.cfg.Order(e.step)), e.cfg.Hyper.Microbatch)))
		}
		if err := e.cfg.Comm.Begin(e.fence, e); err != nil {
			return nil, err
		}
		entry, err := e.attempt(ctx)
		if err != nil {
			return nil, err
		}
		o, err := DecodeOutcome(entry.Payload)
		if err != nil {
			return nil, err
		}
		if done, err := e.apply(o); done || err != nil {
			return e.res, err
		}
		e.fence = entry.Fence
	}
}

// apply makes the outcome of an attempt this member's state.
func (e *Engine) apply(o *Outcome) (done bool, err error) {
	if err := o.check(len(e.layout.Tensors)); err != nil {
		return false, err
	}
	if o.Step != e.step {
		return false, fmt.Errorf("fsdp: the log ends step %d, this member is at step %d", o.Step, e.step)
	}
	if o.Saved != nil && e.cfg.Saver != nil {
		e.cfg.Saver.Finish(o.Saved)
	}
	if o.StateHash != "" && (o.Step == e.cfg.Hyper.Steps || e.hashDue(o.Step)) {
		e.res.StepHashes[o.Step] = o.StateHash
	}
	switch o.Kind {
	case EntryCommit:
		if o.Skipped {
			e.res.Skipped++
		} else {
			e.update(o)
		}
		e.res.Samples += e.samples(o.Step)
		e.res.Losses = append(e.res.Losses, o.Loss)
	case EntryRetry:
		e.res.Retries++
	case EntryDone:
		e.res.StateHash, e.res.EvalLoss = o.StateHash, o.EvalLoss
		e.res.EvalCount, e.res.Correct, e.res.MemberRows = o.EvalCount, o.Correct, o.MemberRows
		return true, e.dev.Sync()
	}
	e.step, _, _, _, e.exps = e.decider.next(o)
	e.cover, e.saved = nil, nil
	if o.Kind == EntryCommit && (e.step == e.cfg.Hyper.Steps || e.hashDue(e.step) || e.saveDue()) {
		if err := e.hash(); err != nil {
			return false, err
		}
		if e.saveDue() {
			e.save()
		}
	}
	if e.cfg.Progress != nil {
		e.cfg.Progress(o)
	}
	return false, e.dev.Sync()
}

// hashDue says whether the hash of the state after so many steps is recorded.
func (e *Engine) hashDue(step int) bool {
	return e.cfg.Hyper.HashEvery > 0 && step%e.cfg.Hyper.HashEvery == 0
}

// share is this member's part of the microbatches of a step's batch.
func (e *Engine) share(step, m int) Share { return Shares(step, m, e.cfg.Weights)[e.rank] }

// samples is the number of samples of step that this member computes.
func (e *Engine) samples(step int) int64 {
	list := microbatches(len(e.cfg.Order(step)), e.cfg.Hyper.Microbatch)
	s := e.share(step, len(list))
	if s.First == s.Last {
		return 0
	}
	return int64(list[s.Last-1][1] - list[s.First][0])
}
