package shoal

import (
	"encoding/json"
	"strings"
	"testing"
	"unsafe"

	"shoal/internal/report"
	"shoal/swarm"
)

// TestHistoryKeepsOneCopyOfAnID follows a history with many views, told by another peer and then gone on with: of each
// peer id there is one text, or a long run's memory would grow by all ids with each view.
func TestHistoryKeepsOneCopyOfAnID(t *testing.T) {
	told, err := json.Marshal(past{Views: []report.View{
		{Number: 1, Members: []string{"alice", "bob"}},
		{Number: 2, Members: []string{"bob", "carol", "alice"}},
		{Number: 3, Members: []string{"carol", "alice"}},
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
	h.viewed(&swarm.View{Number: 4, Members: []swarm.Member{{Peer: strings.Clone("alice")}, {Peer: strings.Clone("dave")}, {Peer: strings.Clone("carol")}}}, 9)

	want := [][]string{{"alice", "bob"}, {"bob", "carol", "alice"}, {"carol", "alice"}, {"alice", "dave", "carol"}}
	texts := map[string]*byte{}
	for i, v := range h.copy().Views {
		if got := strings.Join(v.Members, " "); got != strings.Join(want[i], " ") {
			t.Errorf("view %d has members %s, want %s", v.Number, got, want[i])
		}
		for _, id := range v.Members {
			at := unsafe.StringData(id)
			if first, ok := texts[id]; ok && first != at {
				t.Errorf("view %d has a copy of its own of %q", v.Number, id)
			}
			texts[id] = at
		}
	}
}
