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

// TestWrapTrainsTheSame: grouping moves no loss; the hash has other leaves, but is the same for any number of peers.
func TestWrapTrainsTheSame(t *testing.T) {
	plain := base(t).mustRun(t)[0]
	s := base(t)
	var err error
	if s.model, err = Wrap("layers:2").Apply(s.model); err != nil {
		t.Fatal(err)
	}
	want := s.mustRun(t)[0]
	if !slices.Equal(want.Losses, plain.Losses) {
		t.Errorf("losses %v, without wrapping %v", want.Losses, plain.Losses)
	}
	s.weights = []int64{2, 1, 1}
	same(t, want, s.mustRun(t)[0])
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
