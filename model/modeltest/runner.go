package modeltest

import (
	"bytes"
	"fmt"
	"math"

	"shoal/kernel"
	"shoal/model"
)

// Runner runs a whole model on one device, with every parameter there. It is the plain way that fsdp's schedule has to
// agree with: for tests and examples, not for training.
type Runner struct {
	dev    kernel.Device
	m      model.Model
	strict bool // check each call against the contract
	params map[string]kernel.Buffer
	grads  map[string]kernel.Buffer
}

// NewRunner allocates m's parameters and gradients on dev. Parameters start undefined.
func NewRunner(dev kernel.Device, m model.Model) *Runner {
	r := &Runner{dev: dev, m: m, params: map[string]kernel.Buffer{}, grads: map[string]kernel.Buffer{}}
	for _, u := range m.Units() {
		for _, p := range u.Params {
			r.params[p.Name] = dev.Alloc(kernel.Parameters, kernel.F32, p.Len())
			r.grads[p.Name] = dev.Alloc(kernel.Gradients, kernel.F32, p.Len())
		}
	}
	return r
}

// Param is the parameter called name, Grad the gradient of the sum of the losses for it, filled by Run.
func (r *Runner) Param(name string) kernel.Buffer { return r.params[name] }

// Grad is Param's gradient.
func (r *Runner) Grad(name string) kernel.Buffer { return r.grads[name] }

// Free gives all of the runner's memory back.
func (r *Runner) Free() {
	for name := range r.params {
		r.dev.Free(r.params[name])
		r.dev.Free(r.grads[name])
	}
}

// pass is what a forward pass leaves for the backward pass.
type pass struct {
	in   model.DeviceBatch
	x    []kernel.Buffer // x[i] goes into stage i, x[len(stages)] are the losses
	ctxs []*model.Ctx
}

func (p *pass) losses() kernel.Buffer { return p.x[len(p.x)-1] }

func (r *Runner) freePass(p *pass) {
	for _, x := range p.x {
		r.dev.Free(x)
	}
	for _, c := range p.ctxs {
		c.Drop()
	}
}

// Forward returns the losses, one per label; the caller frees them.
func (r *Runner) Forward(in model.DeviceBatch) (losses kernel.Buffer, err error) {
	p, err := r.forward(in)
	if err == nil {
		losses = p.losses()
		p.x = p.x[:len(p.x)-1]
	}
	r.freePass(p)
	return losses, err
}

// Run returns the losses, one per label, which the caller frees, and fills the gradients. With recompute each stage
// runs its Forward a second time right before its Backward, from fresh memory.
func (r *Runner) Run(in model.DeviceBatch, recompute bool) (losses kernel.Buffer, err error) {
	p, err := r.forward(in)
	if err == nil {
		err = r.backward(p, recompute)
	}
	if err == nil {
		losses = p.losses()
		p.x = p.x[:len(p.x)-1]
	}
	r.freePass(p)
	return losses, err
}

func (r *Runner) forward(in model.DeviceBatch) (*pass, error) {
	p := &pass{in: in, x: []kernel.Buffer{{}}}
	for i := range r.m.Stages() {
		c, y, err := r.stageForward(i, in, p.x[i])
		p.x, p.ctxs = append(p.x, y), append(p.ctxs, c)
		if err != nil {
			return p, fmt.Errorf("stage %d (%T): Forward: %w", i, r.m.Stages()[i].Layer, err)
		}
	}
	return p, nil
}

func (r *Runner) stageForward(i int, in model.DeviceBatch, x kernel.Buffer) (*model.Ctx, kernel.Buffer, error) {
	st := r.m.Stages()[i]
	c := model.NewCtx(r.dev, in)
	ps := r.pick(st)
	before := r.snapshot(in, x, ps)
	y := st.Layer.Forward(c, ps, x)
	c.EndCall()
	if err := r.dev.Sync(); err != nil || !r.strict {
		return c, y, err
	}
	return c, y, r.checkForward(i, c, in, y, before, r.snapshot(in, x, ps))
}

func (r *Runner) checkForward(i int, c *model.Ctx, in model.DeviceBatch, y kernel.Buffer, before, after []byte) error {
	labels := in.N * r.m.Sample().Labels
	switch last := i == len(r.m.Stages())-1; {
	case !bytes.Equal(before, after):
		return fmt.Errorf("changed a parameter, its input or the batch: it must leave them alone")
	case y.None():
		return fmt.Errorf("returned no buffer: want one from c.Out")
	case last && y.Len != labels:
		return fmt.Errorf("returned %d losses: want one per label, which is %d", y.Len, labels)
	case !c.Predictions().None() && c.Predictions().Len != labels:
		return fmt.Errorf("predicted %d labels of %d", c.Predictions().Len, labels)
	}
	if k := r.firstNaN(y); k >= 0 {
		return fmt.Errorf("element %d of %d of its output is NaN: not written, or made from memory that was not", k, y.Len)
	}
	return nil
}

func (r *Runner) backward(p *pass, recompute bool) error {
	for _, g := range r.grads {
		r.dev.Zero(g)
	}
	var dy kernel.Buffer
	for i := len(p.ctxs) - 1; i >= 0; i-- {
		layer := r.m.Stages()[i].Layer
		if recompute {
			if err := r.again(i, p); err != nil {
				return fmt.Errorf("stage %d (%T): second Forward: %w", i, layer, err)
			}
		}
		dx, err := r.stageBackward(i, p, dy)
		r.dev.Free(dy)
		if err != nil {
			r.dev.Free(dx)
			return fmt.Errorf("stage %d (%T): Backward: %w", i, layer, err)
		}
		p.ctxs[i].Drop()
		dy = dx
	}
	r.dev.Free(dy)
	return nil
}

// again replaces what stage i kept by a second Forward, which must give the same bits.
func (r *Runner) again(i int, p *pass) error {
	p.ctxs[i].Drop()
	c, y, err := r.stageForward(i, p.in, p.x[i])
	p.ctxs[i] = c
	defer r.dev.Free(y)
	if err == nil && !bytes.Equal(r.bytes(y), r.bytes(p.x[i+1])) {
		err = fmt.Errorf("gave other values than the first: it must be a pure function of parameters, input and batch")
	}
	return err
}

// stageBackward adds the stage's gradients to grads: two stages may share a parameter.
func (r *Runner) stageBackward(i int, p *pass, dy kernel.Buffer) (kernel.Buffer, error) {
	st, x := r.m.Stages()[i], p.x[i]
	ps, dps := r.pick(st), make([]kernel.Buffer, len(st.Params))
	for k := range dps {
		dps[k] = r.poisoned(ps[k].Len)
		defer r.dev.Free(dps[k])
	}
	before := r.snapshot(p.in, x, ps)
	dx := st.Layer.Backward(p.ctxs[i], ps, dps, x, dy)
	p.ctxs[i].EndCall()
	if err := r.dev.Sync(); err != nil {
		return dx, err
	}
	if r.strict {
		if !bytes.Equal(before, r.snapshot(p.in, x, ps)) {
			return dx, fmt.Errorf("changed a parameter, its input or the batch: it must leave them alone")
		}
		if err := r.checkGradients(st, dps, x, dx); err != nil {
			return dx, err
		}
	}
	for k, name := range st.Params {
		r.dev.Add(r.grads[name], r.grads[name], dps[k])
	}
	return dx, r.dev.Sync()
}

func (r *Runner) checkGradients(st model.Stage, dps []kernel.Buffer, x, dx kernel.Buffer) error {
	for k, name := range st.Params {
		if e := r.firstNaN(dps[k]); e >= 0 {
			return fmt.Errorf("element %d of %d of the gradient of %q is NaN: not written, or added to what was there", e, dps[k].Len, name)
		}
	}
	if x.Len != dx.Len {
		return fmt.Errorf("returned %d elements of dx: want %d, as many as x has", dx.Len, x.Len)
	}
	if e := r.firstNaN(dx); e >= 0 {
		return fmt.Errorf("element %d of %d of dx is NaN: not written, or made from memory that was not", e, dx.Len)
	}
	return nil
}

func (r *Runner) pick(st model.Stage) []kernel.Buffer {
	ps := make([]kernel.Buffer, len(st.Params))
	for i, name := range st.Params {
		ps[i] = r.params[name]
	}
	return ps
}

// poisoned is memory full of NaN, so that what Backward does not write shows.
func (r *Runner) poisoned(n int) kernel.Buffer {
	b := r.dev.Alloc(kernel.GradientWork, kernel.F32, n)
	if r.strict {
		nan := make([]float32, n)
		for i := range nan {
			nan[i] = float32(math.NaN())
		}
		r.dev.Upload(b, kernel.Bytes(nan))
	}
	return b
}

// snapshot is the contents of everything that a call must not change.
func (r *Runner) snapshot(in model.DeviceBatch, x kernel.Buffer, ps []kernel.Buffer) []byte {
	if !r.strict {
		return nil
	}
	var all []byte
	for _, b := range append([]kernel.Buffer{in.Input, in.Tokens, in.Labels, x}, ps...) {
		all = append(all, r.bytes(b)...)
	}
	return all
}

// bytes is the contents of b; a failed device has none, and its error is reported by Sync.
func (r *Runner) bytes(b kernel.Buffer) []byte {
	if b.None() || b.Len < 0 {
		return nil
	}
	p := make([]byte, b.Len*b.Mem.DType().Size())
	if r.dev.Download(p, b) != nil {
		return nil
	}
	return p
}

// Floats downloads b, which must be F32.
func (r *Runner) Floats(b kernel.Buffer) ([]float32, error) {
	f := make([]float32, max(b.Len, 0))
	if err := r.dev.Download(kernel.Bytes(f), b); err != nil {
		return nil, err
	}
	return f, nil
}

// firstNaN is the index of the first NaN in b, or -1.
func (r *Runner) firstNaN(b kernel.Buffer) int {
	if b.Len <= 0 {
		return -1
	}
	f, err := r.Floats(b)
	if err != nil {
		return -1
	}
	for i, e := range f {
		if e != e {
			return i
		}
	}
	return -1
}
