package fsdp

import (
	"fmt"
	"path"
	"strconv"
	"strings"

	"shoal/model"
)

// Wrap says how a model's blocks are grouped into units: "block" (one each), "layers:K" (K in a row), or "bytes:N" (as
// many in a row as have at most N bytes of float32 parameters, at least one). Fewer, larger units cost fewer collectives
// and more memory. The zero value is "block".
type Wrap string

// parse gives the limits of a unit, 0 for none.
func (w Wrap) parse() (layers, bytes int, err error) {
	kind, number, _ := strings.Cut(string(w), ":")
	n, bad := strconv.Atoi(number)
	switch {
	case w == "" || w == "block":
		return 1, 0, nil
	case kind == "layers" && bad == nil && n >= 1:
		return n, 0, nil
	case kind == "bytes" && bad == nil && n >= 1:
		return 0, n, nil
	}
	return 0, 0, fmt.Errorf("wrap is %q, allowed are block, layers:K and bytes:N with whole numbers from 1", string(w))
}

// Valid says whether w is one of the allowed forms.
func (w Wrap) Valid() bool {
	_, _, err := w.parse()
	return err == nil
}

// Apply is m with its units grouped. The root unit stays alone.
func (w Wrap) Apply(m model.Model) (model.Model, error) {
	layers, bytes, err := w.parse()
	if err != nil {
		return nil, err
	}
	if layers == 1 {
		return m, nil
	}
	units := m.Units()
	g := &grouped{Model: m, units: units[:1:1], of: make([]int, len(units)), sizes: [][]int{{len(units[0].Params)}}}
	for i := 1; i < len(units); {
		group := model.Unit{Name: units[i].Name}
		size, first := 0, i
		var sizes []int
		for ; i < len(units); i++ {
			n := unitBytes(units[i])
			if i > first && (layers > 0 && i-first == layers || bytes > 0 && size+n > bytes) {
				break
			}
			size += n
			group.Params = append(group.Params, units[i].Params...)
			sizes = append(sizes, len(units[i].Params))
			g.of[i] = len(g.units)
		}
		if i-1 > first {
			group.Name += ".." + units[i-1].Name
		}
		g.units, g.sizes = append(g.units, group), append(g.sizes, sizes)
	}
	return g, nil
}

func unitBytes(u model.Unit) int {
	n := 0
	for _, p := range u.Params {
		n += 4 * p.Len()
	}
	return n
}

// grouped is a model with other units.
type grouped struct {
	model.Model
	units []model.Unit
	of    []int   // the group of each unit of Model
	sizes [][]int // per group: the number of parameters of each unit of Model in it
}

// ownUnits divides the parameters of unit i of m by the model's own units, as they were before Apply.
func ownUnits(m model.Model, i int, params []model.Param) [][]model.Param {
	g, ok := m.(*grouped)
	if !ok {
		return [][]model.Param{params}
	}
	var parts [][]model.Param
	for _, n := range g.sizes[i] {
		parts = append(parts, params[:n])
		params = params[n:]
	}
	return parts
}

func (g *grouped) Units() []model.Unit { return g.units }

func (g *grouped) Stages() []model.Stage {
	stages := append([]model.Stage(nil), g.Model.Stages()...)
	for i := range stages {
		stages[i].Unit = g.of[stages[i].Unit]
	}
	return stages
}

// Encode passes on what the model does to a sample.
func (g *grouped) Encode(dst, src []float32) {
	if e, ok := g.Model.(model.Encoder); ok {
		e.Encode(dst, src)
		return
	}
	copy(dst, src)
}

// FrozenBy is the test for a list of patterns, separated by spaces, in which * stands for any text without a slash, as in
// "wte.weight h.0.*". An empty list freezes nothing, and then the result is nil.
func FrozenBy(patterns string) (func(name string) bool, error) {
	list := strings.Fields(patterns)
	for _, p := range list {
		if _, err := path.Match(p, ""); err != nil {
			return nil, fmt.Errorf("frozen: pattern %q is not closed: %w", p, err)
		}
	}
	if len(list) == 0 {
		return nil, nil
	}
	return func(name string) bool {
		for _, p := range list {
			if ok, _ := path.Match(p, name); ok {
				return true
			}
		}
		return false
	}, nil
}

// CheckFrozen reports a pattern that matches no parameter of m, and freezing everything.
func CheckFrozen(m model.Model, patterns string) error {
	frozen, err := FrozenBy(patterns)
	if frozen == nil {
		return err
	}
	trained := 0
	unused := map[string]bool{}
	for _, p := range strings.Fields(patterns) {
		unused[p] = true
	}
	for _, u := range m.Units() {
		for _, p := range u.Params {
			if !frozen(p.Name) {
				trained++
			}
			for pattern := range unused {
				if ok, _ := path.Match(pattern, p.Name); ok {
					delete(unused, pattern)
				}
			}
		}
	}
	for _, p := range strings.Fields(patterns) {
		if unused[p] {
			return fmt.Errorf("frozen: no parameter's name matches %q; the first one is %s", p, m.Units()[0].Params[0].Name)
		}
	}
	if trained == 0 {
		return fmt.Errorf("frozen: %q leaves nothing to train", patterns)
	}
	return nil
}
