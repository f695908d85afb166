package fsdp

import (
	"context"
	"errors"
	"fmt"
	"time"

	"shoal/kernel"
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
	DDP   Strategy = "ddp"   // nothing: every member is owner or backup of everything
)

// shards says what a strategy keeps whole on every member beside what it holds.
type shards struct{ params, gradients bool }

var strategies = map[Strategy]shards{
	FSDP:  {},
	Zero2: {params: true},
	Zero1: {params: true, gradients: true},
	DDP:   {}, // everybody holds everything, see View
}

// Recompute says what a stage keeps for its backward pass. The bits are the same.
type Recompute string

const (
	RecomputeAuto   Recompute = "auto"   // keep inner activations while they fit Config.ActivationBudget
	RecomputeAlways Recompute = "always" // keep only a stage's input
	RecomputeNever  Recompute = "never"  // keep everything, see model.Ctx.KeepAll
)

// Config is what one member needs to train. Model, Hyper, Strategy, KeepGathered, ParamType, Order, SaveEvery, AuditEvery
// and the data sets must be the same on every member.
type Config struct {
	Model  model.Model
	Device kernel.Device
	Comm   Comm
	Start  Entry // that began the first view with this member in it; with a Payload, this member joins a run that is under way
	Hyper  Hyper
	Frozen func(name string) bool // parameters that never change; nil means none

	Strategy         Strategy
	KeepGathered     bool // keep units from forward to backward (reshard: false)
	Recompute        Recompute
	ActivationBudget int64        // bytes of activations that RecomputeAuto may keep; 0 means 1 GiB
	ParamType        kernel.DType // what parameters travel and are computed as: BF16 or F32

	// Ahead is how many bytes of units, and as many of gradients, may be on their way at once where that is more than a few
	// units, so that a distant link always has something to carry; 0 means 16 MiB.
	Ahead int

	Train Dataset
	Eval  Dataset              // held-out samples; nil means no evaluation
	Order func(step int) []int // sample indices of step's global batch

	// Initial, if set, gives the initial parameters in place of the model's: it fills dst with a tensor's values from
	// element first on.
	Initial func(name string, first int, dst []float32) error

	// Resume, if set, is what the run goes on from, in place of any initial parameters. Its Position is the same on every
	// member.
	Resume *Resume
	// Losses and StepHashes are what is known of the steps before this member's first, for the Result and for checkpoints.
	// If Losses is nil, a resumed run takes both from Resume.
	Losses     []float64
	StepHashes []StepHash
	// SaveEvery is the number of steps from one checkpoint to the next; 0 means none. Saver keeps this member's parts of
	// them.
	SaveEvery int
	Saver     Saver
	// AuditEvery is the number of steps from one comparison of what a range's holders have to the next; 0 means none but
	// those that checkpoints need.
	AuditEvery int
	// Backups is how many members are to hold a range beside its owner, or a negative number for all. It is for Need alone.
	Backups int

	// Export, on members that want the final parameters (see View.Exporting), is called for each tensor in turn with its
	// float32 values, which are valid during the call only. Where a member was lost meanwhile it begins again.
	Export func(p model.Param, values []float32) error

	// Progress is called after each Commit and Retry with the losses and hashes of all steps so far, which stay as they are; may
	// be nil.
	Progress func(o *Outcome, losses []float64, hashes []StepHash)
	Computed func(samples int64)  // called after each Commit with those of its samples that were computed here; may be nil
	Trace    func(Event)          // called from several goroutines; may be nil
	Stats    func(*Result) []byte // this member's row for everybody's report; may be nil
	At       func(Point)          // called at each Point, by the engine's goroutine: to make faults happen; may be nil
}

// Result is what a run came to. Everything but the member's own part is equal on all members.
type Result struct {
	Losses     []float64
	StepHashes []StepHash // in the order of steps
	StateHash  string
	EvalLoss   float64
	EvalCount  int64 // held-out labels
	Correct    int64
	MemberRows [][]byte // what Config.Stats returned, in rank order

	RunSamples int64 // of all members in committed steps, since the run began or went on from a checkpoint

	Missed int64       // of RunSamples, those of steps before this member's first one
	Views  []ViewStart // that this member was in

	Rank     int
	Owned    int   // parameters that this member owns
	Samples  int64 // computed here in committed steps
	Computed int   // committed steps in which this member computed any
	Retries  int
	Skipped  int           // steps without an update because a gradient was not finite
	Wall     time.Duration // first attempt to last commit
	First    time.Duration // of it, for the first committed step: until all have begun, and the exponents are known
	Steps    int           // committed steps that this member took part in after that one
	Times    Times         // in these, and in the attempts before them: together they are Wall - First
	Timeline []Event       // of TimelineStep: from the commit of the step before, time 0, to its own; at most MaxEvents; none if this member was not in both

	// Bytes at rest are taken between two steps.
	ParameterBytes, GradientBytes, OptimizerBytes, BackupBytes int64
}

// ViewStart is a view and the step with which it began.
type ViewStart struct {
	Fence      uint64
	Step, Size int
}

// ErrLeft ends Run on a member that the others go on without.
var ErrLeft = errors.New("fsdp: this member is not in the view that begins")

// ErrRestored ends Run when the run has gone back to a checkpoint: what this engine has counts no more, and another one
// goes on from that checkpoint.
var ErrRestored = errors.New("fsdp: the run goes on from a checkpoint")

// Engine is one member's state. It belongs to the goroutine that calls Run; only the Sink is called by others.
type Engine struct {
	cfg     Config
	dev     *tracker
	layout  *Layout
	decider *Decider
	format  format
	stages  []model.Stage
	train   walk
	eval    walk
	clock   time.Time
	res     *Result
	watch   stopwatch
	lane    lane
	heard   time.Duration // when the log's entry that ended the last attempt was known

	// Memory that a step leaves to the next one.
	spare  byteList
	batch  model.Batch // that was read last
	loaded work        // of the last walk
	unused []*model.Ctx
	params []kernel.Buffer // of the stage that is computed
	grads  []kernel.Buffer // of these
	maxima []float32       // of these
	loss   [1]float32      // of a microbatch

	place *placement // of the view
	rank  int
	units []*unit

	fence uint64
	work  []int64 // what a microbatch costs each member, for Deal
	fills []Fill  // of this attempt
	tried *attempt
	step  int
	try   int // of this step with other exponents, from 0
	exps  []int16

	// What the next Ready says of the state before this step: see pending.
	untold   bool
	cover    [][]Node
	audit    []byte
	saved    *savedPart
	computed int64 // samples of the last Ready
}

// NewEngine checks cfg and makes the initial state of what this member holds.
func NewEngine(cfg Config) (*Engine, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	e := &Engine{cfg: cfg, dev: newTracker(cfg.Device), layout: NewLayout(cfg.Model, cfg.Frozen), stages: cfg.Model.Stages(),
		clock: time.Now(), res: &Result{}}
	order := cfg.Order
	e.decider = &Decider{Layout: e.layout, Hyper: cfg.Hyper, BatchSize: func(s int) int { return len(order(s)) }}
	e.format = newFormat(&e.cfg.Hyper, e.layout, e.dev.Meter())
	var units []int
	for _, s := range e.stages {
		units = append(units, s.Unit)
	}
	e.train = newWalk(units, true, cfg.KeepGathered)
	e.eval = newWalk(units, false, false)
	for i := range e.layout.Units {
		e.units = append(e.units, &unit{UnitLayout: e.layout.Units[i], given: map[int][]byte{}})
	}
	if err := e.start(); err != nil {
		return nil, err
	}
	return e, e.dev.Sync()
}

func (c *Config) validate() error {
	if err := model.Validate(c.Model); err != nil {
		return err
	}
	if c.Start.View == nil {
		return fmt.Errorf("fsdp: the first entry has no view")
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

// Run trains to the end. It returns when the run is done, the others go on without this member (ErrLeft), the run goes back to a
// checkpoint (ErrRestored), ctx is cancelled or something failed.
func (e *Engine) Run(ctx context.Context) (*Result, error) {
	start := e.now()
	e.begun(start)
	defer context.AfterFunc(ctx, func() { e.dev.Cancel(context.Cause(ctx)) })()
	for {
		step := e.step
		entry, err := e.attempt(ctx)
		if err != nil {
			return nil, err
		}
		if done, err := e.apply(entry); err != nil {
			if errors.Is(err, ErrLeft) {
				return e.res, err
			}
			return nil, err
		} else if done {
			return e.res, nil
		}
		if e.step > step {
			e.timed(e.now(), start)
		}
	}
}

// at says which Point this member has come to.
func (e *Engine) at(phase string, unit int) {
	e.cfg.Comm.SetPhase(phase, unit)
	if e.cfg.At != nil {
		e.cfg.At(Point{Step: e.step, Phase: phase, Unit: unit})
	}
}
