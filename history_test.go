package shoal

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"shoal/fsdp"
	"shoal/internal/report"
	"shoal/swarm"
)

// TestHistoryKeepsOneCopy follows a history with many views, told by another peer and then gone on with: of each peer id and of
// each reason there is one text, and lists of ids lie side by side, or a long run's memory would grow by all of that with each
// view.
func TestHistoryKeepsOneCopy(t *testing.T) {
	told, err := json.Marshal(past{Views: []report.View{
		{Number: 1, Members: []string{"alice", "bob"}},
		{Number: 2, Reason: "rebalance", Members: []string{"bob", "carol", "alice"}},
		{Number: 3, Reason: "rebalance", Members: []string{"carol", "alice"}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	var p past
	if err := json.Unmarshal(told, &p); err != nil {
		t.Fatal(err)
	}
	var h history
	h.set(p)
	h.viewed(&swarm.View{Number: 4, Reason: strings.Clone("rebalance"), Members: []swarm.Member{{Peer: strings.Clone("alice")}, {Peer: strings.Clone("dave")}, {Peer: strings.Clone("carol")}}}, 9)
	h.viewed(&swarm.View{Number: 5, Reason: "voters", Members: []swarm.Member{{Peer: "alice"}, {Peer: "dave"}, {Peer: "carol"}}}, 9)

	want := [][]string{{"alice", "bob"}, {"bob", "carol", "alice"}, {"carol", "alice"}, {"alice", "dave", "carol"}, {"alice", "dave", "carol"}}
	texts := map[string]*byte{}
	views := h.copy().Views
	if &views[4].Members[0] != &views[3].Members[0] {
		t.Error("the members of a view are kept again, though they are those of the view before")
	}
	for i, v := range views[:4] {
		if got := strings.Join(v.Members, " "); got != strings.Join(want[i], " ") {
			t.Errorf("view %d has members %s, want %s", v.Number, got, want[i])
		}
		for _, text := range append(v.Members, v.Reason) {
			at := unsafe.StringData(text)
			if first, ok := texts[text]; ok && first != at {
				t.Errorf("view %d has a copy of its own of %q", v.Number, text)
			}
			texts[text] = at
		}
		if i == 0 {
			continue
		}
		before := views[i-1].Members
		if end := unsafe.Add(unsafe.Pointer(&before[0]), len(before)*int(unsafe.Sizeof(""))); end != unsafe.Pointer(&v.Members[0]) {
			t.Errorf("the members of view %d don't lie behind those of the one before", v.Number)
		}
	}
}

// A newcomer gets a long history whole, in parts that don't grow with it.
func TestLongHistoryIsToldInParts(t *testing.T) {
	const steps, views = 3*partSteps + 5, 2*partViews + 7
	var h history
	var want past
	for i := range steps {
		want.Losses = append(want.Losses, math.Sqrt(float64(i)))
		if i%100 == 0 {
			want.StepHashes = append(want.StepHashes, fsdp.StepHash{Step: i, Hash: fsdp.Hash{byte(i)}})
		}
	}
	for i := range views {
		want.Views = append(want.Views, report.View{Number: uint64(i + 1), Reason: fmt.Sprint("the reason of ", i), Members: []string{"alice", fmt.Sprint("peer ", i)}, Step: i})
	}
	want.Samples = 12345
	h.set(past{Losses: slices.Clone(want.Losses), StepHashes: slices.Clone(want.StepHashes), Views: slices.Clone(want.Views), Samples: want.Samples})
	parts, most := 0, 0
	tell := func(ask []byte) ([]byte, error) {
		b := h.encode(ask)
		parts, most = parts+1, max(most, len(b))
		return b, nil
	}
	got, err := collect(tell, known{steps, views})
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%d steps, %d hashes and %d views are told of %d, %d and %d: %v", len(got.Losses), len(got.StepHashes), len(got.Views), steps, len(want.StepHashes), views, err)
	}
	if parts != 5 || most > 1<<18 {
		t.Errorf("it took %d parts, the longest of %d bytes", parts, most)
	}
	for _, few := range []known{{steps - 1, views}, {steps, views - 1}} {
		if _, err := collect(tell, few); err == nil {
			t.Errorf("more is told than the %d steps and %d views that there were", few.Steps, few.View)
		}
	}
	twice := func([]byte) ([]byte, error) { return h.encode([]byte("{}")), nil }
	if _, err := collect(twice, known{10 * steps, views}); err == nil {
		t.Error("what is told twice counts twice")
	}
	h.undo()
	if h.encode([]byte("{}")) != nil {
		t.Error("a history that is undone is told")
	}
	for _, ask := range []string{"", "[]", `{"steps":-1}`, `{"steps":1000000}`} {
		if new(history).encode([]byte(ask)) != nil {
			t.Errorf("there is an answer to %q", ask)
		}
	}
}
