package fsdp

import (
	"errors"
	"fmt"
	"math"
	"math/big"

	"github.com/fxamacker/cbor/v2"

	"shoal/kernel/ref"
)

// Hyper are the training settings that every member must agree on.
type Hyper struct {
	Steps       int     // optimizer steps of the run
	Microbatch  int     // samples per microbatch
	Batch       int     // samples per global batch
	LR          float64 // peak learning rate
	MinLR       float64 // where a cosine schedule ends
	Schedule    string  // "cosine" or "constant", after the warmup
	Warmup      int     // steps of linear warmup
	WeightDecay float64 // decoupled, per unit of learning rate
	Clip        float64 // largest norm of the mean gradient; 0 means no clipping
	Beta1       float64
	Beta2       float64
	Eps         float64
	Seed        uint64
	HashEvery   int    // steps between recorded state hashes; 0 means only the last
	Reduce      Format // how gradients are summed; empty means Fixed32
}

// maxBadSteps is how many steps in a row may have a gradient that is not finite before the run ends with an error.
const maxBadSteps = 10

// ready is what a member tells the leader at the end of an attempt.
type ready struct {
	_       struct{} `cbor:",toarray"`
	Step    int
	Samples int64
	Count   int64   // labels that are not ignored
	Loss    int64   // sum of losses, fixed point
	Finite  bool    // the loss was finite
	Max     []int16 // per tensor: exponent of the largest |g| of the own microbatches
	Squares []u128  // per tensor: sum of squares of the reduced gradient of what it owns, fixed point
	Square  float64 // the same of all tensors, in floats
	Counts  []int   // per unit: microbatches summed in what it owns; -1 if it owns nothing
	Cost    int64   // microseconds of computing per microbatch; 0 if it computed none
	Cover   [][]Node
	Audit   []byte     // see makeAudit
	Saved   *savedPart // if a checkpoint was due before this attempt

	Correct int64  // after the last step: held-out labels predicted right
	Stats   []byte // after the last step: this member's row of the report
}

// Outcome is the payload of a log entry that ends an attempt: everything the update needs, so that nobody computes a
// scalar by itself.
type Outcome struct {
	_       struct{} `cbor:",toarray"`
	Step    int      // from 0: the step that was tried
	Attempt int      // tries of this step before
	Kind    EntryKind

	Loss    float64 // mean over the labels; NaN if it was not finite
	Samples int64
	Count   int64
	Total   int64   // samples of all committed steps up to and with this one, since the run began or went on
	Norm    float64 // norm of the mean gradient before clipping
	Skipped bool    // the gradient was not finite: parameters stay as they are

	Used []int16 // exponents of the sums that are to be applied
	Next []int16 // exponents of the next attempt
	Bad  int     // steps in a row that were skipped

	Scale      float32 // clip factor / Count; times 2^(Used-F) per tensor
	LR, Decay  float32
	C1, C2     float32
	Updates    int    // updates applied up to and with this one
	StateHash  string // of the parameters before this step, or of the final ones; empty if it was not asked for
	Saved      *Saved // the checkpoint before this step, if one was due
	EvalLoss   float64
	EvalCount  int64
	Correct    int64
	MemberRows [][]byte // in rank order, at the end
}

var decoding = func() cbor.DecMode {
	m, err := cbor.DecOptions{MaxArrayElements: 1 << 20, MaxNestedLevels: 8}.DecMode()
	if err != nil {
		panic(err) // constant options
	}
	return m
}()

// DecodeOutcome reads the payload of a Commit, Retry or Done.
func DecodeOutcome(b []byte) (*Outcome, error) {
	var o Outcome
	if err := decoding.Unmarshal(b, &o); err != nil {
		return nil, fmt.Errorf("fsdp: outcome in the log: %w", err)
	}
	return &o, nil
}

// check says whether o can belong to a model of n tensors.
func (o *Outcome) check(n int) error {
	if _, ok := o.Hash(); !ok && o.StateHash != "" {
		return fmt.Errorf("fsdp: outcome in the log with the state hash %.80q", o.StateHash)
	}
	switch {
	case o.Kind < EntryCommit || o.Kind > EntryDone:
		return fmt.Errorf("fsdp: outcome in the log of unknown kind %d", o.Kind)
	case o.Saved != nil && o.Saved.Position.Step != o.Step:
		return fmt.Errorf("fsdp: outcome in the log of step %d with a checkpoint of step %d", o.Step, o.Saved.Position.Step)
	case o.Kind == EntryDone:
		return nil
	case len(o.Next) != n || o.Kind == EntryCommit && len(o.Used) != n:
		return fmt.Errorf("fsdp: outcome in the log with %d and %d exponents, the model has %d tensors", len(o.Used), len(o.Next), n)
	}
	return nil
}

// Hash is StateHash; ok is false where there is none.
func (o *Outcome) Hash() (h Hash, ok bool) {
	err := h.UnmarshalText([]byte(o.StateHash))
	return h, err == nil
}

// Decider decides attempts. It holds only what every member knows, so any member can lead.
type Decider struct {
	Layout *Layout
	Hyper  Hyper
	// BatchSize is the number of samples in step's global batch.
	BatchSize func(step int) int
	// Start is where the run goes on; nil at its beginning.
	Start *Position
	// Manifest is the hash of the manifest of a checkpoint that all owners have written. An error abandons it.
	Manifest func(*Saved) (string, error)
}

// format is how gradients are summed.
func (d *Decider) format() format { return newFormat(&d.Hyper, d.Layout, nil) }

// next says which step follows prev (nil before the first) and with which state.
func (d *Decider) next(prev *Outcome) (step, attempt, updates, bad int, exps []int16) {
	switch {
	case prev == nil && d.Start != nil:
		return d.Start.Step, 0, d.Start.Updates, d.Start.Bad, d.Layout.fromName(d.Start.Exponents)
	case prev == nil:
		exps = make([]int16, len(d.Layout.Tensors))
		for i := range exps {
			exps[i] = expZero
		}
		return 0, 0, 0, 0, exps
	case prev.Kind == EntryRetry:
		return prev.Step, prev.Attempt + 1, prev.Updates, prev.Bad, prev.Next
	default:
		return prev.Step + 1, 0, prev.Updates, prev.Bad, prev.Next
	}
}

// Decide is the leader's answer when every member of the view is ready: a pure function of the last outcome (nil
// before the first), the work of the attempt and the members' payloads, both in rank order. next is the work of the next
// attempt. An error ends the run.
func (d *Decider) Decide(prev []byte, work []int64, readies [][]byte) (kind EntryKind, payload []byte, next []int64, err error) {
	var last *Outcome
	if prev != nil {
		if last, err = DecodeOutcome(prev); err != nil {
			return 0, nil, nil, err
		}
		if err := last.check(len(d.Layout.Tensors)); err != nil {
			return 0, nil, nil, err
		}
	}
	members := make([]ready, len(readies))
	for r, b := range readies {
		if err := decoding.Unmarshal(b, &members[r]); err != nil {
			return 0, nil, nil, fmt.Errorf("fsdp: what rank %d said when it was ready: %w", r, err)
		}
	}
	o, err := d.decide(last, members)
	if err != nil {
		return 0, nil, nil, err
	}
	payload, err = cbor.Marshal(o)
	return o.Kind, payload, d.work(o.Step, work, members), err
}

func (d *Decider) decide(prev *Outcome, members []ready) (*Outcome, error) {
	o := &Outcome{Kind: EntryCommit}
	var exps []int16
	o.Step, o.Attempt, o.Updates, o.Bad, exps = d.next(prev)
	sum, err := d.sum(o.Step, members)
	if err != nil {
		return nil, err
	}
	if err := d.audited(o.Step, members); err != nil {
		return nil, err
	}
	if o.Samples, o.Count = sum.Samples, sum.Count; prev != nil {
		o.Total = prev.Total
	}
	if o.StateHash, err = d.stateHash(members); err != nil {
		return nil, err
	}
	if prev == nil && d.Start != nil && o.StateHash != d.Start.StateHash {
		return nil, fmt.Errorf("fsdp: the state that the members loaded has hash %q, the checkpoint %s", o.StateHash, d.Start.StateHash)
	}
	o.Saved = d.saved(Position{Step: o.Step, Updates: o.Updates, Bad: o.Bad, Exponents: exps, StateHash: o.StateHash}, members)
	if o.Step == d.Hyper.Steps {
		return d.done(o, sum, members), nil
	}
	o.Loss = meanLoss(sum)
	retried := o.Total
	o.Total += o.Samples
	if t := notFinite(sum.Max); t >= 0 || !sum.Finite {
		return d.skip(o, exps, t)
	}
	o.Next = nextExponents(exps, sum.Max)
	if d.format().outgrown(exps, sum.Max) {
		if o.Attempt > 2 {
			return nil, fmt.Errorf("fsdp: step %d was tried %d times and its gradients still outgrow their range", o.Step, o.Attempt+1)
		}
		o.Kind, o.Total = EntryRetry, retried
		return o, nil
	}
	o.Used, o.Bad = exps, 0
	o.Updates++
	d.scalars(o, sum)
	return o, nil
}

// sum adds up what the members said and checks that nothing is missing or counted twice.
func (d *Decider) sum(step int, members []ready) (*ready, error) {
	s := &ready{Step: step, Finite: true, Max: make([]int16, len(d.Layout.Tensors)), Squares: make([]u128, len(d.Layout.Tensors))}
	for i := range s.Max {
		s.Max[i] = expZero
	}
	final := step == d.Hyper.Steps
	want := 0
	if !final {
		want = len(microbatches(d.BatchSize(step), d.Hyper.Microbatch))
	}
	for r := range members {
		m := &members[r]
		if m.Step != step {
			return nil, fmt.Errorf("fsdp: rank %d is at step %d, the run at %d", r, m.Step, step)
		}
		s.Samples += m.Samples
		s.Count += m.Count
		s.Loss += m.Loss
		s.Correct += m.Correct
		s.Square += m.Square
		s.Finite = s.Finite && m.Finite && m.Square >= 0 && !math.IsInf(m.Square, 1)
		if final {
			continue
		}
		if len(m.Max) != len(s.Max) || len(m.Squares) != len(s.Squares) || len(m.Counts) != len(d.Layout.Units) {
			return nil, fmt.Errorf("fsdp: rank %d trains another model", r)
		}
		for t := range s.Max {
			s.Max[t] = max(s.Max[t], m.Max[t])
			s.Squares[t] = s.Squares[t].add(m.Squares[t])
		}
		for u, n := range m.Counts {
			if n >= 0 && n != want {
				return nil, fmt.Errorf("fsdp: rank %d summed %d microbatches of unit %s, want %d", r, n, d.Layout.Units[u].Name, want)
			}
		}
	}
	if !final && s.Samples != int64(d.BatchSize(step)) {
		return nil, fmt.Errorf("fsdp: the members computed %d samples of step %d, want %d", s.Samples, step, d.BatchSize(step))
	}
	return s, nil
}

// work is what a microbatch costs each member, from what it has cost: a quarter of what is new counts, all of it when the
// cost has more than doubled or halved. But a moment's trouble, also the first one's, counts as four times the cost at most,
// unless it comes in a trial, since then there was trouble before. Who computed none keeps its cost; who got none since it
// was late is taken for too slow to get any but trials. Where a sum depends on who computes what, only that counts.
func (d *Decider) work(step int, old []int64, members []ready) []int64 {
	if len(old) != len(members) {
		old = make([]int64, len(members))
	}
	cost, quickest := make([]int64, len(members)), int64(maxCost)
	for r := range members {
		if cost[r] = min(max(members[r].Cost, 0), maxCost); !d.Hyper.Reduce.Exact() {
			cost[r] = min(cost[r], 1)
		}
		for _, c := range []int64{cost[r], old[r]} {
			if c > 0 {
				quickest = min(quickest, c)
			}
		}
	}
	m := 0
	if step < d.Hyper.Steps {
		m = len(microbatches(d.BatchSize(step), d.Hyper.Microbatch))
	}
	due := deal(step, m, costs(old)) // without trials
	next, slowest := make([]int64, len(members)), int64(1)
	for r, c := range cost {
		was := min(old[r], maxCost)
		if was == 0 {
			was = quickest
		}
		switch {
		case c == 0:
			next[r] = max(old[r], NoWork)
		case was < 0 || due[r] == 0 || 2*c < was:
			next[r] = c
		case c > 2*was:
			next[r] = min(c, 4*was)
		case old[r] == 0:
			next[r] = c
		default:
			next[r] = max(1, (3*was+c)/4)
		}
		slowest = max(slowest, next[r])
	}
	for r := range next {
		if next[r] == NoWork {
			next[r] = min(maxCost, slowest*int64(1+m))
		}
	}
	return next
}

func (d *Decider) stateHash(members []ready) (string, error) {
	var covers [][][]Node
	for i := range members {
		if members[i].Cover == nil {
			return "", nil
		}
		covers = append(covers, members[i].Cover)
	}
	return stateHash(d.Layout, covers)
}

func (d *Decider) done(o *Outcome, sum *ready, members []ready) *Outcome {
	o.Kind = EntryDone
	o.EvalCount, o.Correct = sum.Count, sum.Correct
	o.EvalLoss = meanLoss(sum)
	for i := range members {
		o.MemberRows = append(o.MemberRows, members[i].Stats)
	}
	return o
}

// ErrNotFinite ends a run whose gradients were NaN or infinite for too many steps in a row.
var ErrNotFinite = errors.New("gradients are not finite: lower the learning rate or look for bad samples")

// skip makes a step whose gradient is not finite final without an update.
func (d *Decider) skip(o *Outcome, exps []int16, tensor int) (*Outcome, error) {
	o.Skipped, o.Used, o.Next = true, exps, exps
	o.Bad++
	if o.Bad >= maxBadSteps {
		where := "the loss"
		if tensor >= 0 {
			where = d.Layout.Tensors[tensor]
		}
		return nil, fmt.Errorf("fsdp: %d steps in a row up to step %d (first in %s): %w", o.Bad, o.Step, where, ErrNotFinite)
	}
	return o, nil
}

// scalars fills in what the update needs; every one is rounded to float32 once.
func (d *Decider) scalars(o *Outcome, sum *ready) {
	norm := d.format().norm(sum, o.Used)
	o.Norm, _ = norm.Float64()
	scale := new(big.Float).SetPrec(128).SetInt64(1)
	if clip := new(big.Float).SetFloat64(d.Hyper.Clip); d.Hyper.Clip > 0 && norm.Cmp(clip) > 0 {
		scale.Quo(clip, norm)
	}
	if sum.Count > 0 {
		scale.Quo(scale, new(big.Float).SetInt64(sum.Count))
	}
	o.Scale, _ = scale.Float32()
	lr := d.Hyper.rate(o.Step)
	o.LR = float32(lr)
	o.Decay = float32(float64(lr * d.Hyper.WeightDecay))
	o.C1 = ref.BiasCorrection(float32(d.Hyper.Beta1), o.Updates)
	o.C2 = ref.BiasCorrection(float32(d.Hyper.Beta2), o.Updates)
}

func meanLoss(s *ready) float64 {
	if !s.Finite {
		return math.NaN()
	}
	if s.Count == 0 {
		return 0
	}
	return math.Ldexp(float64(s.Loss), -lossBits) / float64(s.Count)
}

func notFinite(exps []int16) int {
	for t, e := range exps {
		if e == expNotFinite {
			return t
		}
	}
	return -1
}

// nextExponents takes the maxima just seen, but lets an exponent fall by one a step only: late in training a batch with
// one mistake among many right answers has gradients far beyond the batch before it, and a range that follows every lull
// is outgrown again and again. A tensor whose gradient was all zero keeps its exponent.
func nextExponents(exps, seen []int16) []int16 {
	next := make([]int16, len(exps))
	for t, e := range seen {
		switch {
		case e == expZero:
			next[t] = exps[t]
		case exps[t] == expZero:
			next[t] = e
		default:
			next[t] = max(e, exps[t]-1)
		}
	}
	return next
}
