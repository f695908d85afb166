package fsdp

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"shoal/model"
)

func unitNames(m model.Model) []string {
	var names []string
	for _, u := range m.Units() {
		names = append(names, u.Name)
	}
	return names
}

func TestWrap(t *testing.T) {
	m := base(t).model
	block := unitBytes(m.Units()[1])
	names := unitNames(m)
	for _, c := range []struct {
		wrap Wrap
		want []string
	}{
		{"", names},
		{"block", names},
		{"layers:1", names},
		{"layers:2", []string{names[0], names[1] + ".." + names[2], names[3]}},
		{"layers:9", []string{names[0], names[1] + ".." + names[3]}},
		{"bytes:1", names},
		{Wrap("bytes:" + strconv.Itoa(2*block)), []string{names[0], names[1] + ".." + names[2], names[3]}},
	} {
		g, err := c.wrap.Apply(m)
		if err != nil {
			t.Fatal(err)
		}
		if got := unitNames(g); !slices.Equal(got, c.want) {
			t.Errorf("%s: units %v, want %v", c.wrap, got, c.want)
		}
		if err := model.Validate(g); err != nil {
			t.Errorf("%s: %v", c.wrap, err)
		}
	}
	for _, bad := range []Wrap{"layers", "layers:0", "layers:x", "bytes:-1", "all", "block:2"} {
		if _, err := bad.Apply(m); err == nil || bad.Valid() {
			t.Errorf("%s is accepted", bad)
		}
	}
}

// TestWrapTrainsTheSame: grouping moves neither a loss nor the hash, with any members, strategy and frozen parameters.
func TestWrapTrainsTheSame(t *testing.T) {
	for _, frozen := range []func(string) bool{nil, freezeBlocks} {
		s := base(t)
		s.frozen = frozen
		want := s.mustRun(t)[0]
		for _, wrap := range []Wrap{"layers:2", "layers:3", "bytes:1000000"} {
			for _, weights := range [][]int64{{1}, {2, 1, 1}, {1, 1, 1, 1, 1}} {
				for _, strategy := range []Strategy{FSDP, DDP} {
					w := s
					w.weights, w.strategy = weights, strategy
					var err error
					if w.model, err = wrap.Apply(s.model); err != nil {
						t.Fatal(err)
					}
					for _, got := range w.mustRun(t) {
						same(t, want, got)
					}
				}
			}
		}
	}
}

func TestFrozenPatterns(t *testing.T) {
	m := base(t).model
	for _, c := range []struct{ patterns, want string }{
		{"", ""},
		{"blocks.0.* pos*", ""},
		{"nothing.*", "matches \"nothing.*\""},
		{"*", "nothing to train"},
		{"[a", "not closed"},
	} {
		err := CheckFrozen(m, c.patterns)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.patterns, err, c.want)
		}
	}
}
