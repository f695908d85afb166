package modeltest

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"shoal/kernel"
	"shoal/model"
	"shoal/model/modeltest/f64"
)

const (
	maxElements = 48   // elements of a parameter that are tried one by one; all of them when there are no more
	tolerance   = 1e-5 // relative
)

// steps are tried in turn until one agrees: where a kink (ReLU at 0) lies inside the larger step, the smaller one
// passes it by. A wrong gradient agrees with none.
var steps = []float64{1e-5, 1e-6}

// differ takes finite differences of the summed loss.
type differ struct {
	r    *Runner
	dev  *f64.Device
	in   model.DeviceBatch
	loss float64
	rng  *rand.Rand
}

// checkDifferences compares exact's gradients with central differences and reports the first faults of each parameter.
func checkDifferences(m model.Model, params map[string][]float32, b *model.Batch, exact *result, rng *rand.Rand) error {
	dev := f64.New()
	d := &differ{r: NewRunner(dev, m), dev: dev, in: model.UploadBatch(dev, b), rng: rng}
	for name, v := range params {
		dev.Upload(d.r.Param(name), kernel.Bytes(v))
	}
	for _, l := range exact.losses {
		d.loss += l
	}
	var faults []error
	for _, u := range m.Units() {
		for _, p := range u.Params {
			if err := d.param(p, exact.grads[p.Name]); err != nil {
				faults = append(faults, err)
			}
		}
	}
	return errors.Join(faults...)
}

// param tries sampled elements, then a random direction through all of them.
func (d *differ) param(p model.Param, grad []float64) error {
	order := d.rng.Perm(p.Len())
	for _, i := range order[:min(len(order), maxElements)] {
		dir := []component{{i, 1}}
		want, step, err := d.agree(p.Name, dir, grad[i])
		if err != nil {
			return err
		}
		if step != 0 {
			return fmt.Errorf("modeltest: parameter %q %v, element %d: Backward says %.9g, finite differences say %.9g (step %g)",
				p.Name, p.Shape, i, grad[i], want, step)
		}
	}
	dir, got := make([]component, p.Len()), 0.0
	for i := range dir {
		dir[i] = component{i, (float64(d.rng.IntN(2))*2 - 1) / math.Sqrt(float64(p.Len()))}
		got += dir[i].size * grad[i]
	}
	want, step, err := d.agree(p.Name, dir, got)
	if err == nil && step != 0 {
		err = fmt.Errorf("modeltest: parameter %q %v, a direction through all %d elements: Backward says %.9g, finite differences say %.9g (step %g)",
			p.Name, p.Shape, p.Len(), got, want, step)
	}
	return err
}

// component is one nonzero component of a direction.
type component struct {
	index int
	size  float64
}

// agree compares got with differences along dir. step is 0 if they agree, else the the step of the nearest one.
func (d *differ) agree(name string, dir []component, got float64) (want, step float64, err error) {
	var miss float64
	for _, h := range steps {
		fd, err := d.difference(name, dir, h)
		if err != nil {
			return 0, 0, err
		}
		noise := 1e-13 * max(1, math.Abs(d.loss)) / h // of the float64 losses
		off := math.Abs(fd - got)
		if off <= tolerance*max(math.Abs(fd), math.Abs(got))+noise {
			return fd, 0, nil
		}
		if step == 0 || off < miss {
			want, step, miss = fd, h, off
		}
	}
	return want, step, nil
}

// difference is the central difference of the summed loss along dir with step h.
func (d *differ) difference(name string, dir []component, h float64) (float64, error) {
	v := d.dev.Values(d.r.Param(name))
	old := make([]float64, len(dir))
	for k, c := range dir {
		old[k] = v[c.index]
	}
	var at [2]float64
	for side, sign := range []float64{1, -1} {
		for k, c := range dir {
			v[c.index] = old[k] + sign*h*c.size
		}
		l, err := d.r.Forward(d.in)
		if err != nil {
			return 0, err
		}
		for _, e := range d.dev.Values(l) {
			at[side] += e
		}
		d.dev.Free(l)
	}
	for k, c := range dir {
		v[c.index] = old[k]
	}
	return (at[0] - at[1]) / (2 * h), nil
}
