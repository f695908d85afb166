package member

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"shoal/internal/place"
	"shoal/swarm/wire"
)

// A Restore goes back to a checkpoint that the log knows, as a view of members that need not have been holders; who is
// neither lost nor in it stays a member.
func TestRestoreEntry(t *testing.T) {
	st := &state{Run: []byte("run"), Peers: 4, Members: []Member{daemon(1), daemon(2), daemon(3), daemon(4)},
		ranges: []place.Range{{Size: 10}, {Size: 10}}}
	work := func(n int) []int64 { return make([]int64, n) }
	placed := func(n int, owners ...int) []byte {
		return encodeMap(place.Map{Owner: owners, Backups: make([][]int, len(owners))}, n)
	}
	at := func(name string, step int) *Saved { return &Saved{Name: name, Step: step, Run: []byte("from " + name)} }
	back := func(name string, ids []uint64, lost ...uint64) record {
		return record{Kind: recordRestore, Follows: 8, Name: name, Number: 2, IDs: ids, Work: work(len(ids)), Lost: lost, Reason: "lost",
			Have: placed(len(ids), 0, 0), Want: placed(len(ids), 0, 0)}
	}
	early := back("a", []uint64{1})
	early.Follows = 0
	stale := back("a", []uint64{4, 2}, 1)
	stale.Follows = 6
	for i, x := range []struct {
		name string
		r    record
		want bool
	}{
		{"before a view", early, false},
		{"view", record{Kind: recordView, Number: 1, IDs: []uint64{1, 2, 3}, Work: work(3), Have: placed(3, 0, 1), Want: placed(3, 0, 1)}, true},
		{"commit with a checkpoint", record{Kind: recordCommit, Follows: 4, Body: []byte("c"), Work: work(3), Saved: at("a", 5)}, true},
		{"retry with one", record{Kind: recordRetry, Follows: 5, Body: []byte("d"), Work: work(3), Saved: at("b", 7)}, true},
		{"a stale commit with one", record{Kind: recordCommit, Follows: 5, Body: []byte("e"), Work: work(3), Saved: at("c", 9)}, false},
		{"late", record{Kind: recordLate, Follows: 6, Work: work(3), Fills: []int64{0, 1}}, true},
		{"stale", stale, false},
		{"one that is not known", back("c", []uint64{4, 2}, 1), false},
		{"a stranger", back("a", []uint64{4, 9}, 1), false},
		{"nobody", back("a", nil, 1), false},
		{"restore", back("a", []uint64{4, 2}, 1), true},
	} {
		index := uint64(i + 3)
		before := string(st.encode())
		if got := st.apply(index, &x.r); got != x.want {
			t.Errorf("%s: applied %v, want %v", x.name, got, x.want)
		}
		if !x.want && string(st.encode()) != before {
			t.Errorf("%s: the state has changed", x.name)
		}
		if again, err := decodeState(st.encode()); err != nil || string(again.encode()) != string(st.encode()) {
			t.Errorf("%s: does not survive encoding: %v", x.name, err)
		}
	}
	e := st.entry(3)
	if e.Kind != EntryRestore || e.Payload != nil || string(e.Run) != "from a" || e.Restored != 13 || e.Fence != 13 || len(e.Fills) != 0 || st.Tries != 0 || st.Lates != 0 {
		t.Errorf("entry %+v, %d tries, %d of them late", e, st.Tries, st.Lates)
	}
	if v := e.View; v == nil || v.Number != 2 || v.Rank != -1 || len(v.Members) != 2 || v.Place.Owner[0] != 0 {
		t.Errorf("view %+v", v)
	}
	if len(st.Members) != 3 || !slices.Equal(st.Past, []uint64{1}) || len(st.Faults) != 1 || st.Faults[0].Peer != daemon(1).Peer {
		t.Errorf("members %v, past %v, faults %v", st.Members, st.Past, st.Faults)
	}
	if len(st.Saved) != 1 || st.Saved[0].Name != "a" {
		t.Errorf("checkpoints %v: what is newer than the one that the run is at is none any more", st.Saved)
	}
}

// The log remembers some checkpoints, and the newest that anybody can read is the one to go back to.
func TestNewestCheckpoint(t *testing.T) {
	st := &state{}
	for i := range maxSaved + 3 {
		st.save(&Saved{Name: fmt.Sprint(i), Step: i})
	}
	if len(st.Saved) != maxSaved || st.Saved[0].Name != "3" {
		t.Errorf("%v", st.Saved)
	}
	for _, x := range []struct {
		reads []string // by id
		want  string
		who   []uint64
	}{
		{[]string{"", "", ""}, "", nil},
		{[]string{"1", "", "99"}, "", nil}, // forgotten, and never known
		{[]string{"4", "7", "7"}, "7", []uint64{1, 2}},
		{[]string{"10", "7", "10"}, "10", []uint64{0, 2}},
	} {
		got, who := st.newest([]uint64{0, 1, 2}, func(id uint64) string { return x.reads[id] })
		if got == nil {
			got = &Saved{}
		}
		if got.Name != x.want || !slices.Equal(who, x.who) {
			t.Errorf("%q: %q of %v, want %q of %v", x.reads, got.Name, who, x.want, x.who)
		}
	}
}

// What a decision or a genesis says of a checkpoint is checked.
func TestWrongCheckpoints(t *testing.T) {
	for _, wrong := range []*Saved{{}, {Name: strings.Repeat("x", wire.MaxText+1)}, {Name: "x", Run: make([]byte, wire.MaxRun+1)}} {
		if _, err := New(Config{ID: 1, Decide: func(_, _ []byte, _ []int64, _ [][]byte) Decision { return Decision{} },
			Genesis: Genesis{Self: daemon(1), Peers: 1, Saved: wrong}}); err == nil || !strings.Contains(err.Error(), "checkpoint") {
			t.Errorf("a genesis with %.20q: %v", wrong.Name, err)
		}
		if _, err := decodeRecord((&record{Kind: recordCommit, Saved: wrong}).encode()); err == nil {
			t.Errorf("an entry with %.20q is taken", wrong.Name)
		}
	}
}
