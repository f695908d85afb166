package fsdp

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/fxamacker/cbor/v2"

	"shoal/kernel"
	"shoal/model"
)

// work is a member's part of one global batch: for each microbatch its data, the input of every stage, and what the
// stages keep.
type work struct {
	batches []model.DeviceBatch
	first   int   // place of the first one in the global batch's list
	counts  []int // labels per microbatch that are not ignored
	inputs  [][]kernel.Buffer
	kept    [][]*model.Ctx // nil where the stage will be recomputed
	grads   []kernel.Buffer
	busy    time.Duration // spent in computing
	said    *ready
}

// attempt tries one step, or evaluates after the last one: from the parameters to the log entry that ends it. The entry
// may come at any moment: then all that was begun is dropped.
func (e *Engine) attempt(ctx context.Context) (Entry, error) {
	m := 0
	if e.step < e.cfg.Hyper.Steps {
		m = len(microbatches(len(e.cfg.Order(e.step)), e.cfg.Hyper.Microbatch))
	}
	a, err := e.begin(ctx, m)
	if err != nil {
		return Entry{}, err
	}
	e.tried = a
	if err := a.try(); err != nil {
		a.end(err)
		if !errors.As(err, &interrupted{}) {
			return Entry{}, err
		}
	}
	s := e.doing(TraceCommit, -1)
	entry, err := e.cfg.Comm.Next(ctx)
	e.heard = s.start + e.did(s)
	a.end(nil)
	return entry, err
}

// try does this member's part of the attempt and says so.
func (a *attempt) try() error {
	e := a.e
	said := &ready{Step: e.step, Finite: true, Cover: e.cover, Audit: e.audit, Saved: e.saved}
	if err := a.giveFills(); err != nil {
		return err
	}
	part := a.forwardBackward
	if e.step == e.cfg.Hyper.Steps {
		part = a.evaluate
	}
	if err := part(said); err != nil {
		if over := a.check(); over != nil { // so that samples were not waited for, perhaps
			return over
		}
		return err
	}
	b, err := cbor.Marshal(said)
	if err != nil {
		return err
	}
	e.at(PhaseReady, -1)
	e.computed = said.Samples
	if err := e.cfg.Comm.Ready(b); err != nil {
		return interrupted{err}
	}
	return nil
}

// forwardBackward computes the own microbatches' gradient and waits until the sums of what is held here are whole.
func (a *attempt) forwardBackward(said *ready) error {
	e := a.e
	order := e.cfg.Order(e.step)
	list := microbatches(len(order), e.cfg.Hyper.Microbatch)
	share := a.share(e.step, len(list))
	a.setOut(e.train)
	w, err := e.load(e.cfg.Train, order, list[share.First:share.Last])
	if err != nil {
		return err
	}
	w.first, w.said = share.First, said
	said.Max = make([]int16, len(e.layout.Tensors))
	for t := range said.Max {
		said.Max[t] = expZero
	}
	if err := a.walk(e.train, w); err != nil {
		return err
	}
	if err := a.reduced(); err != nil {
		return err
	}
	if n := int64(len(w.batches)); n > 0 {
		said.Cost = max(1, w.busy.Microseconds()/n)
	}
	a.measure(said)
	w.free(e.dev)
	return nil
}

// walk computes every visit for the own microbatches, stage by stage (layered accumulation: Lamy-Poirier 2021, arXiv
// 2106.02679), with the next unit on its way while one is computed.
func (a *attempt) walk(plan walk, w *work) error {
	e := a.e
	for _, v := range plan.visits {
		if err := a.acquire(plan, v.unit); err != nil {
			return err
		}
		if err := a.visit(v, w, len(plan.visits) > len(e.stages)); err != nil {
			return err
		}
		if v.finish {
			if err := a.giveBack(v.unit, len(w.batches)); err != nil {
				return err
			}
		}
		if v.release {
			e.drop(v.unit)
		}
	}
	defer e.did(e.doing(TraceWait, -1))
	return a.returned(&a.giving, 0)
}

// visit computes one stage, forward or backward.
func (a *attempt) visit(v visit, w *work, training bool) error {
	e := a.e
	phase, kind := PhaseForward, TraceForward
	if v.backward {
		phase, kind = PhaseBackward, TraceBackward
	}
	e.at(phase, v.unit)
	if len(w.batches) == 0 {
		return a.check()
	}
	s := e.doing(kind, v.unit)
	if v.backward {
		a.backward(v.stage, w)
	} else {
		a.forwardStage(v.stage, w, training)
	}
	err := e.dev.Sync()
	w.busy += e.did(s)
	if err != nil {
		return err
	}
	return a.check()
}

// load reads the own microbatches and puts them on the device.
func (e *Engine) load(data Dataset, order []int, list [][2]int) (*work, error) {
	e.cfg.Comm.SetPhase(phaseData, -1)
	defer e.did(e.doing(TraceLoad, -1))
	w := &e.loaded
	*w = work{batches: w.batches[:0], counts: w.counts[:0], inputs: w.inputs, kept: w.kept, grads: zeroed(w.grads, len(list))}
	if w.inputs == nil {
		w.inputs, w.kept = make([][]kernel.Buffer, len(e.stages)), make([][]*model.Ctx, len(e.stages))
	}
	for s := range e.stages {
		w.inputs[s], w.kept[s] = zeroed(w.inputs[s], len(list)), zeroed(w.kept[s], len(list))
	}
	b := &e.batch
	for _, mb := range list {
		if err := data.Read(order[mb[0]:mb[1]], b); err != nil {
			return nil, err
		}
		model.EncodeBatch(e.cfg.Model, b)
		w.batches = append(w.batches, model.UploadBatch(e.dev, b))
		w.counts = append(w.counts, b.Count())
	}
	return w, nil
}

// zeroed is n zeros, in the memory of s if that is enough.
func zeroed[T any](s []T, n int) []T {
	s = slices.Grow(s[:0], n)[:n]
	clear(s)
	return s
}

func (w *work) free(dev kernel.Device) {
	for _, b := range w.batches {
		b.Free(dev)
	}
}

// context is one for a stage and a microbatch, which goes back to e.unused once it is dropped.
func (e *Engine) context(b model.DeviceBatch) *model.Ctx {
	n := len(e.unused)
	if n == 0 {
		return model.NewCtx(e.dev, b)
	}
	c := e.unused[n-1]
	e.unused = e.unused[:n-1]
	c.Reset(b)
	return c
}

// forget frees what c has kept.
func (e *Engine) forget(c *model.Ctx) {
	c.Drop()
	e.unused = append(e.unused, c)
}

// tensors are the whole tensors of a stage, as windows on its gathered unit. They are valid until the next call.
func (e *Engine) tensors(stage int) []kernel.Buffer {
	u := e.units[e.stages[stage].Unit]
	e.params = e.params[:0]
	for _, t := range e.layout.stages[stage] {
		s := u.span(t)
		e.params = append(e.params, u.full.Slice(s.Off, s.N))
	}
	return e.params
}

// forwardStage computes a stage for each microbatch, as long as the attempt goes on. The last stage yields the losses.
func (a *attempt) forwardStage(stage int, w *work, training bool) {
	e := a.e
	p := e.tensors(stage)
	for j, b := range w.batches {
		if a.ctx.Err() != nil {
			return
		}
		x := w.inputs[stage][j]
		c := e.context(b)
		c.KeepAll = training && e.cfg.Recompute == RecomputeNever
		y := e.stages[stage].Layer.Forward(c, p, x)
		c.EndCall()
		if stage < len(e.stages)-1 {
			w.inputs[stage+1][j] = y
		} else {
			e.lose(w, j, y, c)
		}
		switch {
		case !training:
			e.forget(c)
			e.dev.Free(x)
		case e.cfg.Recompute == RecomputeAlways,
			e.cfg.Recompute == RecomputeAuto && e.dev.Meter().Live(kernel.Activations) > e.cfg.ActivationBudget:
			e.forget(c)
		default:
			w.kept[stage][j] = c
		}
	}
}

// lose adds the losses of microbatch j, and in evaluation counts right answers.
func (e *Engine) lose(w *work, j int, losses kernel.Buffer, c *model.Ctx) {
	sum := e.dev.Alloc(kernel.Activations, kernel.F32, 1)
	e.dev.Sum(sum, losses)
	if e.dev.Download(kernel.Bytes(e.loss[:]), sum) == nil {
		q, ok := fixedLoss(e.loss[0])
		w.said.Loss += q
		w.said.Finite = w.said.Finite && ok
	}
	w.said.Count += int64(w.counts[j])
	w.said.Samples += int64(w.batches[j].N)
	e.dev.Free(sum)
	e.dev.Free(losses)
	if e.step == e.cfg.Hyper.Steps {
		w.said.Correct += e.correct(c)
	}
}

// correct is the number of labels that the model predicted.
func (e *Engine) correct(c *model.Ctx) int64 {
	pred := c.Predictions()
	if pred.None() || pred.Len != c.Labels.Len {
		return 0
	}
	got, want := make([]int32, pred.Len), make([]int32, pred.Len)
	if e.dev.Download(kernel.Bytes(got), pred) != nil || e.dev.Download(kernel.Bytes(want), c.Labels) != nil {
		return 0
	}
	var n int64
	for i := range got {
		if got[i] == want[i] {
			n++
		}
	}
	return n
}

// backward computes a stage's gradients for each microbatch, as long as the attempt goes on, and adds them to the unit's.
func (a *attempt) backward(stage int, w *work) {
	e := a.e
	u := e.units[e.stages[stage].Unit]
	if u.work.None() {
		e.beginSum(u)
	}
	p, ids := e.tensors(stage), e.layout.stages[stage]
	size := 0
	for _, t := range ids {
		if s := u.span(t); !s.Frozen {
			size += s.N
		}
	}
	grad := e.dev.Alloc(kernel.GradientWork, kernel.F32, size)
	maxima := e.dev.Alloc(kernel.GradientWork, kernel.F32, len(ids)*len(w.batches))
	e.dev.Zero(maxima)
	e.grads = zeroed(e.grads, len(ids))
	dp := e.grads // zero Buffers for frozen tensors
	at := 0
	for i, t := range ids {
		if s := u.span(t); !s.Frozen {
			dp[i] = grad.Slice(at, s.N)
			at += s.N
		}
	}
	for j := range w.batches {
		if a.ctx.Err() != nil {
			break
		}
		e.backwardOne(stage, j, w, p, dp)
		for i, t := range ids {
			if dp[i].None() {
				continue
			}
			e.dev.MaxAbs(maxima.Slice(j*len(ids)+i, 1), dp[i])
			s := u.span(t)
			e.format.collect(e, u.work.Slice(s.Off, s.N), dp[i], summand{s.Param.Name, e.exps[t], stage, w.first + j})
		}
	}
	e.maxima = zeroed(e.maxima, maxima.Len)
	if e.dev.Download(kernel.Bytes(e.maxima), maxima) == nil {
		for i, x := range e.maxima {
			t := ids[i%len(ids)]
			w.said.Max[t] = max(w.said.Max[t], exponentOf(x))
		}
	}
	e.dev.Free(grad)
	e.dev.Free(maxima)
}

// beginSum makes room for the own microbatches' gradient of a unit.
func (e *Engine) beginSum(u *unit) {
	u.work = e.format.alone(e, u)
	if u.added = !u.work.None(); u.added {
		return
	}
	u.work = e.dev.Alloc(kernel.GradientWork, e.format.dtype(), u.Trained)
	e.dev.Zero(u.work)
}

func (e *Engine) backwardOne(stage, j int, w *work, p, dp []kernel.Buffer) {
	layer, x := e.stages[stage].Layer, w.inputs[stage][j]
	c := w.kept[stage][j]
	if c == nil {
		c = e.context(w.batches[j])
		e.dev.Free(layer.Forward(c, p, x))
		c.EndCall()
	}
	if slices.ContainsFunc(dp, kernel.Buffer.None) {
		c.AllowFrozen()
	}
	dx := layer.Backward(c, p, dp, x, w.grads[j])
	c.EndCall()
	e.forget(c)
	w.kept[stage][j] = nil
	e.dev.Free(w.grads[j])
	e.dev.Free(x)
	w.grads[j] = dx
}

// evaluate computes the losses of the held-out samples, a few at a time so that memory stays small.
func (a *attempt) evaluate(said *ready) error {
	e := a.e
	e.at(PhaseEvaluate, -1)
	if e.cfg.Eval != nil {
		h := e.cfg.Hyper
		order := make([]int, e.cfg.Eval.Len())
		for i := range order {
			order[i] = i
		}
		list := microbatches(len(order), h.Microbatch)
		per := evalPass(h)
		for round := 0; round*per < len(list); round++ {
			part := list[round*per : min(len(list), (round+1)*per)]
			s := a.share(round, len(part))
			a.setOut(e.eval)
			w, err := e.load(e.cfg.Eval, order, part[s.First:s.Last])
			if err != nil {
				return err
			}
			w.said = said
			if err := a.walk(e.eval, w); err != nil {
				return err
			}
			w.free(e.dev)
		}
	}
	if err := a.export(); err != nil {
		return err
	}
	if err := a.reduced(); err != nil { // fills
		return err
	}
	if e.cfg.Stats != nil {
		said.Stats = e.cfg.Stats(e.res)
	}
	return nil
}

// measure fills in what the leader needs for the norm and the counts of what is owned here.
func (a *attempt) measure(said *ready) {
	e := a.e
	said.Squares = make([]u128, len(e.layout.Tensors))
	var parts []part
	for i, u := range e.units {
		said.Counts = append(said.Counts, -1)
		if u.own.trained > 0 {
			said.Counts[i] = a.units[i].counted
		}
		u.own.each(&u.UnitLayout, func(s Span, _, n, at int) {
			if !s.Frozen {
				parts = append(parts, part{s.Tensor, u.own.acc[at : at+n]})
			}
		})
	}
	e.format.measure(e, said, parts)
}

// update applies AdamW to all that is held here. Whole copies are out of date then.
func (e *Engine) update(o *Outcome) error {
	before := e.watch.turn(&e.watch.times.Update, e.now())
	defer func() { e.watch.turn(before, e.now()) }()
	for i, u := range e.units {
		e.at(PhaseUpdate, i)
		s := e.doing(TraceUpdate, i)
		u.fresh = false
		for _, h := range u.holdings() {
			e.updateHolding(o, u, h)
		}
		for _, f := range u.fills {
			e.updateHolding(o, u, f.h)
		}
		e.did(s)
	}
	return e.dev.Sync()
}

func (e *Engine) updateHolding(o *Outcome, u *unit, h *holding) {
	if h.trained == 0 {
		return
	}
	hyper := e.cfg.Hyper
	q := e.onDevice(h.acc)
	h.each(&u.UnitLayout, func(s Span, _, n, at int) {
		if s.Frozen {
			return
		}
		a := kernel.AdamW{LR: o.LR, Beta1: float32(hyper.Beta1), Beta2: float32(hyper.Beta2), Eps: float32(hyper.Eps), C1: o.C1, C2: o.C2}
		a.Scale = e.format.factor(o, s.Tensor)
		if s.Param.Decay {
			a.Decay = o.Decay
		}
		e.dev.AdamW(h.p.Slice(at, n), h.m.Slice(at, n), h.v.Slice(at, n), q.Slice(at, n), a)
	})
	e.dev.Free(q)
}
