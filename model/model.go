package model

import (
	"fmt"
	"math"
	"strings"

	"shoal/kernel"
)

// Model describes a network as parameters grouped into units and stages that run in order. It holds no parameter
// values and does not know how they are sharded. All methods must give the same answer on every call.
type Model interface {
	// Units are the FSDP units. Unit 0 is the root unit (embeddings, final norm, head): it stays gathered through a
	// step. Names of parameters are unique in the model.
	Units() []Unit
	// Stages run in this order in the forward pass and in reverse in the backward pass. The last one returns the
	// losses.
	Stages() []Stage
	// Sample says what one sample of the data looks like.
	Sample() Spec
}

// Unit is a group of parameters that is gathered and dropped as one.
type Unit struct {
	Name   string
	Params []Param
}

// Param is one named tensor.
type Param struct {
	Name  string
	Shape []int
	Init  Init
	Decay bool // weight decay applies; false for norms and biases
}

// Len is the number of elements.
func (p Param) Len() int {
	n := 1
	for _, d := range p.Shape {
		n *= d
	}
	return n
}

// Init says how a tensor starts. Every value is a function of (seed, tensor name, index) alone.
type Init struct {
	Kind InitKind
	A    float32 // Uniform: values in [-A, A); Normal: standard deviation
}

// InitKind is a distribution of initial values.
type InitKind uint8

const (
	Zeros InitKind = iota
	Ones
	Uniform
	Normal // approximated by four summed 16-bit uniforms, so bounded by 3.47 standard deviations
)

// Stage is a piece of the model that needs the parameters of one unit.
type Stage struct {
	Unit   int      // index into Units
	Params []string // the parameters used, all of that unit; two stages may share one (a tied head)
	Layer  Layer
}

// Layer computes a stage for one microbatch.
//
// p[i] is the parameter Stage.Params[i]. x is what the stage before returned, the zero Buffer in the first stage (which
// reads c.Input or c.Tokens). Forward must be a pure function of p, x and the batch: it may run twice, when activations
// are recomputed. It returns a buffer from c.Out. The last stage returns one loss per label, 0 where the label is
// ignored.
//
// Backward gets the same p and x, and dy, the gradient of the sum of the losses with respect to what Forward returned
// (the zero Buffer in the last stage). It must write every element of each dp[i] (they start undefined) and returns
// dx from c.Out (the zero Buffer in the first stage). Where a parameter is frozen its dp is the zero Buffer; ops of c
// that would write nothing but that do nothing then.
//
// Neither changes p, x or the batch.
type Layer interface {
	Forward(c *Ctx, p []kernel.Buffer, x kernel.Buffer) kernel.Buffer
	Backward(c *Ctx, p, dp []kernel.Buffer, x, dy kernel.Buffer) kernel.Buffer
}

// Spec is the number of values that one sample has. A model reads floats (images) or tokens (text).
type Spec struct {
	Floats int // float32 inputs
	Tokens int // int32 token ids
	Labels int // int32 labels; a label < 0 is ignored
}

// Batch is a microbatch on the host: N samples, each slice N times what Spec says.
type Batch struct {
	N      int
	Floats []float32
	Tokens []int32
	Labels []int32

	spare []float32 // for EncodeBatch
}

// Count is the number of labels that are not ignored: the weight of the batch in the mean loss.
func (b *Batch) Count() int {
	n := 0
	for _, l := range b.Labels {
		if l >= 0 {
			n++
		}
	}
	return n
}

// Describe is a canonical text of the model's structure: what peers compare to know that they train the same model. A
// Layer with settings that no shape shows (such as the number of heads) should be a fmt.Stringer that tells them.
func Describe(m Model) string {
	var s strings.Builder
	fmt.Fprintf(&s, "sample %+v\n", m.Sample())
	for _, u := range m.Units() {
		fmt.Fprintf(&s, "unit %s\n", u.Name)
		for _, p := range u.Params {
			fmt.Fprintf(&s, "  %s %v init %d %v decay %v\n", p.Name, p.Shape, p.Init.Kind, p.Init.A, p.Decay)
		}
	}
	for i, st := range m.Stages() {
		fmt.Fprintf(&s, "stage %d unit %d %v %T", i, st.Unit, st.Params, st.Layer)
		if l, ok := st.Layer.(fmt.Stringer); ok {
			fmt.Fprintf(&s, " %s", l)
		}
		s.WriteByte('\n')
	}
	return s.String()
}

// MaxElements is the most elements that a unit's parameters may have together, and the most values of a sample.
const MaxElements = math.MaxInt32

// Validate reports the first fault of m's structure: a name used twice, a dimension below 1, a unit of more than
// MaxElements, a stage whose unit or parameter does not exist, a parameter that no stage uses.
func Validate(m Model) error {
	units, stages := m.Units(), m.Stages()
	if len(units) == 0 || len(stages) == 0 {
		return fmt.Errorf("model: needs at least one unit and one stage")
	}
	if err := m.Sample().validate(); err != nil {
		return err
	}
	unitOf := map[string]int{}
	for i, u := range units {
		room := MaxElements
		for _, p := range u.Params {
			if err := p.validate(); err != nil {
				return err
			}
			if _, dup := unitOf[p.Name]; dup {
				return fmt.Errorf("model: parameter name %q is used twice", p.Name)
			}
			unitOf[p.Name] = i
			if room -= p.Len(); room < 0 {
				return fmt.Errorf("model: unit %q has more than %d parameters", u.Name, MaxElements)
			}
		}
	}
	return validateStages(units, stages, unitOf)
}

func (s Spec) validate() error {
	for _, n := range []int{s.Floats, s.Tokens, s.Labels} {
		if n < 0 || n > MaxElements {
			return fmt.Errorf("model: a sample of %+v: each number must be from 0 to %d", s, MaxElements)
		}
	}
	if s.Labels < 1 {
		return fmt.Errorf("model: a sample has %d labels: needs at least one label", s.Labels)
	}
	return nil
}

func (p Param) validate() error {
	if p.Name == "" {
		return fmt.Errorf("model: a parameter of shape %v has no name", p.Shape)
	}
	n := 1
	for _, d := range p.Shape {
		if d < 1 {
			return fmt.Errorf("model: parameter %q has shape %v: every dimension must be at least 1", p.Name, p.Shape)
		}
		if d > MaxElements/n {
			return fmt.Errorf("model: parameter %q of shape %v has more than %d elements", p.Name, p.Shape, MaxElements)
		}
		n *= d
	}
	if p.Init.Kind > Normal {
		return fmt.Errorf("model: parameter %q has an unknown Init %d", p.Name, p.Init.Kind)
	}
	return nil
}

func validateStages(units []Unit, stages []Stage, unitOf map[string]int) error {
	used := map[string]bool{}
	for i, st := range stages {
		if st.Unit < 0 || st.Unit >= len(units) || st.Layer == nil {
			return fmt.Errorf("model: stage %d names unit %d of %d, or has no layer", i, st.Unit, len(units))
		}
		for _, n := range st.Params {
			if u, ok := unitOf[n]; !ok || u != st.Unit {
				return fmt.Errorf("model: stage %d uses parameter %q, which is not in its unit %q", i, n, units[st.Unit].Name)
			}
			used[n] = true
		}
	}
	for _, u := range units {
		for _, p := range u.Params {
			if !used[p.Name] {
				return fmt.Errorf("model: parameter %q is used by no stage", p.Name)
			}
		}
	}
	return nil
}
