package member

import (
	"math/rand/v2"
	"slices"
	"testing"

	"go.etcd.io/raft/v3/raftpb"
	"shoal/internal/place"
)

func newConf(voters ...uint64) *raftpb.ConfState { return &raftpb.ConfState{Voters: voters} }

func TestMapRoundTrip(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{1, 2, 7, 8, 9, 255, 256} {
		m := place.Map{}
		for range 50 {
			owner := rng.IntN(n)
			var backups []int
			for r := range n {
				if r != owner && rng.IntN(3) == 0 {
					backups = append(backups, r)
				}
			}
			m.Owner, m.Backups = append(m.Owner, owner), append(m.Backups, backups)
		}
		b := encodeMap(m, n)
		if len(b) != 50*(1+(n+7)/8) {
			t.Errorf("%d members: %d bytes", n, len(b))
		}
		if got, err := decodeMap(b, 50, n); err != nil || !got.Equal(m) {
			t.Errorf("%d members: %v", n, err)
		}
	}
	for name, b := range map[string][]byte{
		"too short":                 {0, 0, 0},
		"owner out of range":        {3, 0, 0, 0},
		"backup out of range":       {0, 8, 0, 0},
		"the owner is a backup too": {1, 2, 0, 0},
	} {
		if m, err := decodeMap(b, 2, 3); err == nil {
			t.Errorf("%s: %+v", name, m)
		}
	}
}

func FuzzMap(f *testing.F) {
	f.Add([]byte{0, 2, 1, 1}, 2)
	f.Fuzz(func(t *testing.T, b []byte, n int) {
		if n < 1 || n > MaxPeers {
			return
		}
		ranges := len(b) / (1 + (n+7)/8)
		m, err := decodeMap(b, ranges, n)
		if err == nil && !slices.Equal(encodeMap(m, n), b) {
			t.Fatalf("%v becomes %v", b, encodeMap(m, n))
		}
	})
}

func TestListsFromTheNetwork(t *testing.T) {
	ranges := []place.Range{{Group: 0, Size: 256}, {Group: 3, Size: 1 << 40}}
	if got, err := rangeList(flatRanges(ranges)); err != nil || !slices.Equal(got, ranges) {
		t.Errorf("%v, %v", got, err)
	}
	fills := []place.Fill{{Range: 1, To: 2}, {Range: 0, To: 0}}
	if got, err := fillList(flatFills(fills), 2, 3); err != nil || !slices.Equal(got, fills) {
		t.Errorf("%v, %v", got, err)
	}
	for _, bad := range [][]int64{{1}, {-1, 4}, {0, -1}, {0, 1 << 41}, {1 << 40, 1}, make([]int64, 2*MaxRanges+2)} {
		if _, err := rangeList(bad); err == nil {
			t.Errorf("%d ranges were accepted", len(bad)/2)
		}
	}
	for _, bad := range [][]int64{{1}, {2, 0}, {-1, 0}, {0, 3}, {0, -1}} {
		if _, err := fillList(bad, 2, 3); err == nil {
			t.Errorf("fills %v were accepted", bad)
		}
	}
	for _, bad := range [][]int64{nil, {1, 2}, {-1, -1, -1}, {1, -2, 1}} {
		if err := checkWork(bad, 3); err == nil {
			t.Errorf("work %v was accepted", bad)
		}
	}
}

// PROTOCOL.md 6 and 8: only holders of the last Commit may hold, and no range loses its last one.
func TestOnlyHoldersOwn(t *testing.T) {
	m := func(owner int, backups ...int) place.Map {
		return place.Map{Owner: []int{owner, 1}, Backups: [][]int{backups, nil}}
	}
	view := func(kind recordKind, have place.Map, ids ...uint64) *record {
		return &record{Kind: kind, Follows: 4, Number: 2, IDs: ids, Have: encodeMap(have, len(ids)), Want: encodeMap(have, len(ids)), Work: make([]int64, len(ids))}
	}
	for _, x := range []struct {
		name string
		r    *record
		want bool
	}{
		{"the same", view(recordView, m(0, 1), 1, 2), true},
		{"the backup owns", view(recordView, m(1, 0), 1, 2), true},
		{"a newcomer holds nothing", view(recordCommit, m(0, 1), 1, 2, 3), true},
		{"a newcomer owns", view(recordCommit, m(2), 1, 2, 3), false},
		{"a newcomer backs up", view(recordCommit, m(0, 2), 1, 2, 3), false},
		{"the first is out", view(recordView, place.Map{Owner: []int{0, 0}, Backups: make([][]int, 2)}, 2), true},
		{"the last holder is out", view(recordView, place.Map{Owner: []int{0, 0}, Backups: make([][]int, 2)}, 1), false},
		{"it was filled in the committed attempt", view(recordCommit, place.Map{Owner: []int{0, 0}, Backups: make([][]int, 2)}, 1), true},
		{"a placement of too few ranges", &record{Kind: recordView, Follows: 4, Number: 2, IDs: []uint64{1}, Have: []byte{0, 0}, Want: []byte{0, 0}, Work: []int64{0}}, false},
		{"a placement is wanted that can't be", &record{Kind: recordCommit, Follows: 4, Want: []byte{0, 0, 9, 0}, Work: []int64{0, 0}}, false},
		{"another placement is wanted", &record{Kind: recordCommit, Follows: 4, Want: []byte{0, 0, 0, 2}, Work: []int64{0, 0}}, true},
		{"a fill for a stranger", &record{Kind: recordCommit, Follows: 4, Fills: []int64{0, 2}, Work: []int64{0, 0}}, false},
	} {
		st := someStates()[1]
		if got := st.apply(9, x.r); got != x.want {
			t.Errorf("%s: %v, want %v", x.name, got, x.want)
		}
	}
	st := someStates()[1]
	st.apply(9, &record{Kind: recordCommit, Follows: 4, Work: []int64{0, 0}})
	if !st.have.Holds(1, 0) || st.have.Owner[1] != 1 || len(st.fills) != 0 {
		t.Errorf("after the fill: %+v, fills %v", st.have, st.fills)
	}
	st = someStates()[1]
	st.apply(9, &record{Kind: recordLate, Follows: 4, Work: []int64{0, -1}})
	if st.have.Holds(1, 0) {
		t.Error("a fill of an attempt that failed counts")
	}
}
