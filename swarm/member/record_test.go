package member

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
	"shoal/internal/place"
	"shoal/swarm/wire"
)

func TestRecordRoundTrip(t *testing.T) {
	m := Member{ID: 7, Peer: "p", Addrs: []string{"/a"}, Offer: wire.Offer{Kind: "daemon", Weight: 2}}
	for _, r := range []*record{
		{Kind: recordAdmit, Member: &m},
		{Kind: recordLeave, ID: 7, Reason: "x"},
		{Kind: recordView, Follows: 1, Number: 2, IDs: []uint64{7, 8}, Reason: "start", Have: []byte{0, 2}, Want: []byte{1, 1}, Work: []int64{0, -1}},
		{Kind: recordCommit, Follows: 3, Body: []byte{1, 2}, Work: []int64{7}, Fills: []int64{0, 1}},
		{Kind: recordLate, Follows: 3, Work: []int64{7, -1}},
		{Kind: recordStop, ID: 7, Reason: "gone"},
	} {
		got, err := decodeRecord(r.encode())
		if err != nil || !reflect.DeepEqual(got, r) {
			t.Errorf("%+v became %+v, %v", r, got, err)
		}
	}
	for name, r := range map[string]*record{
		"unknown kind":      {Kind: 99},
		"no kind":           {},
		"admits nobody":     {Kind: recordAdmit},
		"admits id 0":       {Kind: recordAdmit, Member: &Member{Peer: "p"}},
		"admits a nameless": {Kind: recordAdmit, Member: &Member{ID: 3}},
		"too long":          {Kind: recordCommit, Body: make([]byte, wire.MaxPayload+1)},
	} {
		if _, err := decodeRecord(r.encode()); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func FuzzRecord(f *testing.F) {
	f.Add((&record{Kind: recordView, Number: 1, IDs: []uint64{1, 2}}).encode())
	f.Add((&record{Kind: recordAdmit, Member: &Member{ID: 1, Peer: "p"}}).encode())
	f.Add((&record{Kind: recordView, Number: 1, IDs: []uint64{1, 2}, Have: []byte{0, 2, 1, 1}, Want: []byte{0, 2, 1, 1}, Work: []int64{0, 0}}).encode())
	f.Add((&record{Kind: recordCommit, Follows: 4, Number: 2, IDs: []uint64{2, 3}, Have: []byte{0, 0, 0, 0}, Want: []byte{0, 0, 1, 0}, Work: []int64{0, 0}, Fills: []int64{1, 1}}).encode())
	f.Add((&record{Kind: recordLate, Follows: 4, Work: []int64{0, -1}}).encode())
	f.Add([]byte{0xa1, 7, 0x5b, 0, 0, 1, 0, 0, 0, 0, 0}) // 2^40 bytes
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := decodeRecord(b)
		if err != nil {
			return
		}
		for _, st := range someStates() {
			st.apply(9, r)
			st.entry(1)
			if _, err := decodeState(st.encode()); err != nil {
				t.Fatalf("after %+v: %v", r, err)
			}
		}
		if again, err := decodeRecord(r.encode()); err != nil || !bytes.Equal(again.encode(), r.encode()) {
			t.Fatalf("%+v does not survive encoding: %v", r, err)
		}
	})
}

// someStates are a run before its first view, and one of two ranges and two members behind fence 4.
func someStates() []*state {
	ranges := []place.Range{{Size: 256}, {Group: 1, Size: 512}}
	members := []Member{{ID: 1, Peer: "a"}, {ID: 2, Peer: "b"}, {ID: 3, Peer: "c"}}
	both := place.Map{Owner: []int{0, 1}, Backups: [][]int{{1}, nil}}
	return []*state{
		{Peers: 3, Members: members, ranges: ranges, Backups: 1},
		{Peers: 3, Members: members, ranges: ranges, Backups: 1, Number: 1, ViewFence: 4, ViewIDs: []uint64{1, 2}, Fence: 4, Last: recordView,
			Work: []int64{0, 0}, have: both, want: both, fills: []place.Fill{{Range: 1, To: 0}}},
	}
}

func FuzzState(f *testing.F) {
	for _, st := range someStates() {
		f.Add(st.encode())
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		st, err := decodeState(b)
		if err != nil {
			return
		}
		st.entry(1)
		st.refuse(Member{ID: 9, Peer: "z"})
		if _, err := decodeState(st.encode()); err != nil {
			t.Fatalf("does not survive encoding: %v", err)
		}
	})
}

func FuzzRaftMessage(f *testing.F) {
	m := &raftpb.Message{Type: raftpb.MsgApp.Enum(), From: new(uint64(1)), To: new(uint64(2)), Term: new(uint64(1)), Index: new(uint64(3)),
		Entries: []*raftpb.Entry{{Index: new(uint64(4)), Term: new(uint64(1)), Data: []byte("x")}}}
	b, err := proto.Marshal(m)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add(bytes.Repeat([]byte{0x3a, 0}, maxPerMessage+1)) // empty entries
	f.Fuzz(func(t *testing.T, b []byte) {
		if _, err := decodeRaft(b); err != nil {
			return
		}
		s := newCluster(t, 2)
		s.open(1, nil)
		s.admit(2)
		c := s.cores[2]
		c.Step(&Message{Kind: wire.ControlRaft, From: 1, To: 2, Body: b}) // may end the run, may not panic
		c.Tick()
	})
}

func TestWhereAMemberWas(t *testing.T) {
	for addrs, want := range map[string]string{
		"":                                    "",
		"/ip4/127.0.0.1/tcp/1 /ip6/::1/tcp/1": "",
		"/ip4/127.0.0.1/tcp/1 /ip4/192.0.2.7/udp/4001/quic-v1": "192.0.2.7",
		"/dns/example.org/tcp/4001":                            "example.org",
		"nonsense /memory/x /ip4":                              "",
	} {
		if got := (Member{Addrs: strings.Fields(addrs)}).host(); got != want {
			t.Errorf("%q: %q, want %q", addrs, got, want)
		}
	}
	s := state{Members: []Member{{ID: 7, Peer: "12D3KooWBozdJuNw", Addrs: []string{"/ip4/192.0.2.7/tcp/1"}}}, ViewIDs: []uint64{3, 7}}
	if got := s.place(7); got != "peer …BozdJuNw (rank 1) at 192.0.2.7" {
		t.Errorf("a member is called %q", got)
	}
}
