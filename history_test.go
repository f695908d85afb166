package shoal

import (
	"encoding/json"
	"strings"
	"testing"
	"unsafe"

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
