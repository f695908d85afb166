package member

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"go.etcd.io/raft/v3/raftpb"
	"shoal/swarm/wire"
)

func TestStartAndTrain(t *testing.T) {
	for n, voters := range map[int]int{1: 1, 2: 1, 3: 3, 4: 3, 5: 5, 6: 5} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			s := newCluster(t, n)
			s.decided = endAt(100)
			s.grow(n)
			s.until(140, "the end", s.allDone)
			for _, id := range s.ids {
				c := s.cores[id]
				e := s.entries[id]
				if len(e) != 135 || e[134].Kind != EntryDone { // the view, steps 0 to 100, 33 of them twice
					t.Fatalf("member %d: %d entries, last %+v", id, len(e), s.last(id))
				}
				v := e[0].View
				if e[0].Kind != EntryView || e[0].Payload != nil || len(v.Members) != n || v.Rank != int(id)-1 || v.Number != 1 || v.Reason != "start" {
					t.Fatalf("member %d: %+v", id, e[0])
				}
				for rank, m := range v.Members {
					if m.ID != uint64(rank)+1 || m.Peer != s.person(m.ID).Peer || m.Offer.Weight != 1 {
						t.Errorf("member %d: rank %d is %+v", id, rank, m)
					}
				}
				if err := v.Place.Check(len(s.ranges), n); err != nil || c.Redundancy() != min(1, n-1) {
					t.Errorf("member %d: redundancy %d, %v", id, c.Redundancy(), err)
				}
				if len(c.Voters()) != voters || len(c.conf.GetVotersOutgoing()) != 0 || c.Promise() != min(min(1, n-1), voters/2) {
					t.Errorf("member %d: voters %v, want %d, promise %d", id, c.conf, voters, c.Promise())
				}
				if !c.Finished() {
					t.Errorf("member %d: not finished", id)
				}
			}
		})
	}
}

func TestRefusals(t *testing.T) {
	s := newCluster(t, 3)
	s.train = false
	s.config = func(c *Config) { c.Genesis.Exact = true }
	s.open(1, nil)
	c := s.cores[1]
	ask := func(name, want string, change func(m *Member)) {
		t.Helper()
		m := s.person(9)
		change(&m)
		if refused, ok := c.Admit(m); !ok || !strings.Contains(refused, want) {
			t.Errorf("%s: refused %q, want something about %q", name, refused, want)
		}
	}
	same := func(id uint64) func(m *Member) { return func(m *Member) { m.Peer = s.person(id).Peer } }
	for range 2 { // before and after the start
		ask("same peer", "in the run already", same(1))
		ask("model", "model differs", func(m *Member) { m.Offer.ModelHash = "other" })
		ask("kernels", "other bits", func(m *Member) { m.Offer.Fingerprint = "other" })
		ask("id 0", "reserved", func(m *Member) { m.ID = 0 })
		ask("raft's own id", "reserved", func(m *Member) { m.ID = 1<<64 - 1 })
		ask("no peer id", "peer id", func(m *Member) { m.Peer = "" })
		if len(s.ids) == 1 {
			s.admit(2)
			s.admit(3)
			s.ticks(2)
		}
		ask("same peer as another", "in the run already", same(2))
	}
	if refused, ok := s.cores[2].Admit(s.person(2)); !ok || refused == "" { // anybody may refuse ...
		t.Error("member 2 does not refuse itself")
	}
	if refused, ok := s.cores[2].Admit(s.person(9)); refused != "" || ok { // ... but only a leader lets in
		t.Errorf("a follower answered %q, %v", refused, ok)
	}
}

// PROTOCOL.md 1, both schedules: only the first entry behind a fence counts.
func TestOneFence(t *testing.T) {
	st := &state{Peers: 3, Members: []Member{daemon(1), daemon(2), daemon(3)}}
	w := func(n int) []int64 { return make([]int64, n) }
	steps := []struct {
		name  string
		index uint64
		r     record
		want  bool
	}{
		{"commit before a view", 2, record{Kind: recordCommit}, false},
		{"view", 3, record{Kind: recordView, Number: 1, IDs: []uint64{1, 2, 3}, Work: w(3)}, true},
		{"another view from the same predecessor", 4, record{Kind: recordView, Number: 1, IDs: []uint64{2, 3}, Work: w(2)}, false},
		{"a view that names a stranger", 5, record{Kind: recordView, Number: 2, Follows: 3, IDs: []uint64{1, 9}, Work: w(2)}, false},
		{"a view that names one twice", 6, record{Kind: recordView, Number: 2, Follows: 3, IDs: []uint64{1, 1}, Work: w(2)}, false},
		{"a view of nobody", 7, record{Kind: recordView, Number: 2, Follows: 3}, false},
		{"retry", 8, record{Kind: recordRetry, Follows: 3, Body: []byte("r"), Work: w(3)}, true},
		{"stale commit behind a retry", 9, record{Kind: recordCommit, Follows: 3, Body: []byte("c"), Work: w(3)}, false},
		{"work for too few", 10, record{Kind: recordCommit, Follows: 8, Body: []byte("d"), Work: w(2)}, false},
		{"work for nobody", 11, record{Kind: recordLate, Follows: 8, Work: []int64{-1, -1, -1}}, false},
		{"late", 12, record{Kind: recordLate, Follows: 8, Work: []int64{0, -1, 5}}, true},
		{"commit of what was late", 13, record{Kind: recordCommit, Follows: 12, Body: []byte("d"), Work: w(3)}, true},
		{"stale stop by Decide", 14, record{Kind: recordStop, Follows: 8, Reason: "x"}, false},
		{"a member of the view leaves", 15, record{Kind: recordLeave, ID: 2}, false},
		{"a retry that begins a view", 16, record{Kind: recordRetry, Follows: 13, Number: 2, IDs: []uint64{1}, Work: w(1)}, false},
		{"a commit that begins a view", 17, record{Kind: recordCommit, Follows: 13, Body: []byte("e"), Number: 2, IDs: []uint64{1, 3}, Work: w(2)}, true},
		{"a view in which one is dead", 18, record{Kind: recordView, Follows: 17, Number: 3, IDs: []uint64{3}, Reason: "died", Work: w(1)}, true},
		{"done", 19, record{Kind: recordDone, Follows: 18, Body: []byte("f")}, true},
		{"stop after the end", 20, record{Kind: recordStop, Reason: "x"}, false},
	}
	for _, x := range steps {
		before := string(st.encode())
		if got := st.apply(x.index, &x.r); got != x.want {
			t.Errorf("%s: applied %v, want %v", x.name, got, x.want)
		}
		if !x.want && string(st.encode()) != before {
			t.Errorf("%s: the state has changed", x.name)
		}
		if again, err := decodeState(st.encode()); err != nil || string(again.encode()) != string(st.encode()) {
			t.Errorf("%s: does not survive encoding: %v", x.name, err)
		}
	}
	if st.Number != 3 || st.Fence != 19 || string(st.Payload) != "f" || st.Stop != nil || !st.ended() {
		t.Errorf("state %+v", st)
	}
	if len(st.Members) != 1 || !slices.Equal(st.Past, []uint64{2, 1}) || len(st.Faults) != 1 || st.Faults[0] != (Fault{Peer: daemon(1).Peer, Reason: "died", Index: 18}) {
		t.Errorf("members %v, past %v, faults %v", st.Members, st.Past, st.Faults)
	}
}

// The leader gets everybody's Ready, and dies before the Commit is on its way: the next one asks again (PROTOCOL.md 5).
func TestLeaderChangeBetweenReadyAndCommit(t *testing.T) {
	s := newCluster(t, 5)
	s.decided = endAt(10)
	s.hold = func(m *Message) bool { return m.Kind == wire.ControlReady && len(s.entries[1]) >= 5 }
	s.grow(5)
	s.ticks(5)
	if len(s.held) == 0 || s.leader() != 1 {
		t.Fatalf("%d messages held, leader %d", len(s.held), s.leader())
	}
	n := len(s.entries[2])
	s.hold = func(m *Message) bool { // member 1 decides, but nobody hears of it
		return m.From == 1 && m.Kind == wire.ControlRaft
	}
	for _, m := range s.held {
		s.post(m)
	}
	s.held = nil
	s.pump()
	if len(s.held) == 0 || len(s.entries[2]) != n {
		t.Fatalf("%d messages held, %d entries, want %d", len(s.held), len(s.entries[2]), n)
	}
	stale := s.held
	s.hold = func(m *Message) bool { return m.From == 1 || m.To == 1 } // alone from now on
	for range 30 {
		for _, id := range s.ids[1:] {
			s.cores[id].Resume() // slow, not dead
		}
		s.tick()
	}
	if !slices.ContainsFunc(s.ids[1:], func(id uint64) bool { return s.cores[id].isLeader() }) {
		t.Fatal("no new leader")
	}
	// With member 1 cut off nothing can be decided, as its Ready is missing. It comes back with its old appends in front.
	if len(s.entries[2]) != n {
		t.Fatalf("decided without a Ready: %d entries, had %d", len(s.entries[2]), n)
	}
	held := s.held
	s.hold, s.held = nil, nil
	for _, m := range append(stale, held...) {
		s.post(m)
	}
	s.pump()
	s.until(60, "the end", s.allDone)
	for _, id := range s.ids {
		e := s.entries[id]
		if len(e) != 15 || e[14].Kind != EntryDone {
			t.Errorf("member %d: %d entries, stopped %+v", id, len(e), s.stopped(id))
		}
	}
}

// Lost, doubled and reordered messages: the run goes on and all logs agree.
func TestUnreliableMessages(t *testing.T) {
	for seed := range uint64(6) {
		s := newCluster(t, 4)
		s.config = func(c *Config) {
			c.SnapshotEntries, c.SnapshotBytes = 7, 1<<20
			c.Timing = Timing{Suspect: 1000, Stuck: 2000, Down: 1000, Deadline: 10000}
		}
		s.train, s.decided = false, endAt(40)
		s.grow(4)
		s.rng = rand.New(rand.NewPCG(seed, 2))
		s.drop, s.double, s.reorder = 0.05+0.05*float64(seed%3), 0.1, true
		s.begin()
		for n := 0; n < 3000 && !s.allDone(); n++ {
			s.tick()
			if n%50 == 49 {
				a, b := s.ids[s.rng.IntN(4)], s.ids[s.rng.IntN(4)]
				s.cut = map[[2]uint64]bool{{a, b}: true, {b, a}: true} // two that don't hear each other for a while
			}
		}
		for _, id := range s.ids {
			if e := s.entries[id]; len(e) == 0 || e[len(e)-1].Kind != EntryDone {
				t.Errorf("seed %d: member %d has %d entries, stopped %+v", seed, id, len(e), s.stopped(id))
			}
		}
	}
}

// PROTOCOL.md 18: a change of voters that vanishes is proposed until it is seen. Here the library drops it because a
// change is pending that can't be applied yet.
func TestJointChangeVanishes(t *testing.T) {
	s := newCluster(t, 3)
	s.open(1, nil)
	s.admit(2)
	c := s.cores[1]
	before := len(c.conf.GetVoters())
	// A change that is proposed behind another pending one becomes an empty entry.
	one := &raftpb.ConfChangeV2{Changes: []*raftpb.ConfChangeSingle{{Type: raftpb.ConfChangeAddLearnerNode.Enum(), NodeId: new(uint64(77))}}}
	if err := c.rn.ProposeConfChange(one); err != nil {
		t.Fatal(err)
	}
	if err := c.rn.ProposeConfChange(one); err != nil {
		t.Fatal(err)
	}
	c.lead.confTick = max(c.tick, 1) // as after proposing: it thinks that its own is on its way
	s.admit(3)
	s.ticks(2 * confRetry)
	if before != 1 || len(c.Voters()) != 3 || slices.Contains(c.conf.GetLearners(), 77) {
		t.Errorf("configuration %v, had %d voters", c.conf, before)
	}
	if s.view(3) == nil {
		t.Error("the run did not start")
	}
}

// Voters come by one joint change: there is never a configuration of two or four.
func TestNeverTwoVoters(t *testing.T) {
	s := newCluster(t, 5)
	s.hold = func(*Message) bool {
		for _, id := range s.ids {
			if n := len(s.cores[id].Voters()); n != 1 && n != 3 && n != 5 {
				t.Errorf("member %d: %d voters", id, n)
			}
		}
		return false
	}
	s.grow(5)
	if len(s.cores[5].Voters()) != 5 {
		t.Errorf("voters %v", s.cores[5].Voters())
	}
}

func TestSnapshotsBoundTheLog(t *testing.T) {
	s := newCluster(t, 3)
	s.config = func(c *Config) { c.SnapshotEntries = 20 }
	s.decided = endAt(300)
	s.grow(3)
	s.until(500, "the end", s.allDone)
	for _, id := range s.ids {
		c := s.cores[id]
		first, _ := c.storage.FirstIndex()
		last, _ := c.storage.LastIndex()
		if last < 400 || last-first > 45 {
			t.Errorf("member %d keeps entries %d to %d", id, first, last)
		}
	}
}

// A member that hears nothing while the leader compacts gets a snapshot, and one entry with the attempt's end that it missed.
func TestLaggardGetsSnapshot(t *testing.T) {
	s := newCluster(t, 4)
	s.config = func(c *Config) { c.SnapshotEntries, c.Timing = 1, Timing{Suspect: 500, Stuck: 1000, Down: 500} }
	s.train = false
	s.grow(4)
	fence := s.view(4).Fence
	for _, id := range s.ids {
		s.ready(id, fence, "0.0")
		s.collect(id)
	}
	s.hold = func(m *Message) bool { return m.To == 4 && m.Kind == wire.ControlRaft }
	s.pump()
	if len(s.entries[1]) != 2 || len(s.entries[4]) != 1 {
		t.Fatalf("entries %d and %d", len(s.entries[1]), len(s.entries[4]))
	}
	for range 4 { // entries without effect, until the Commit is compacted away
		c := s.cores[1]
		if !c.propose(&record{Kind: recordLeave, ID: 3}) {
			t.Fatal("not proposed")
		}
		c.settle()
		s.collect(1)
		s.pump()
	}
	first, _ := s.cores[1].storage.FirstIndex()
	if first <= s.last(1).Fence {
		t.Fatalf("the log still begins at %d", first)
	}
	s.hold, s.held = nil, nil // what was held is lost
	s.cores[1].Unreachable(4)
	s.ticks(5)
	if e := s.last(4); len(s.entries[4]) != 2 || string(e.Payload) != "0.0" || e.Kind != EntryView || e.View == nil || e.Fence != s.last(1).Fence {
		t.Errorf("member 4: entries %+v", s.entries[4])
	}
}

// A member that doesn't know of the latest admissions could not be led by one of them: until it does, nobody new votes.
func TestVotersAreKnownToAll(t *testing.T) {
	s := newCluster(t, 5)
	s.open(1, nil)
	s.admit(2)
	s.hold = func(m *Message) bool { return m.To == 2 }
	s.admit(3)
	s.admit(4)
	s.ticks(20)
	if v := s.cores[1].Voters(); len(v) != 1 {
		t.Fatalf("voters %v while member 2 has applied no admission but its own", v)
	}
	s.hold, s.held = nil, nil // what was held is lost
	s.cores[1].Unreachable(2)
	s.ticks(10)
	if v := s.cores[1].Voters(); len(v) != 3 || len(s.cores[2].Members()) != 4 {
		t.Errorf("voters %v, member 2 knows %d members", v, len(s.cores[2].Members()))
	}
}

func TestBrokenSnapshots(t *testing.T) {
	s := newCluster(t, 2)
	for name, b := range map[string][]byte{"garbage": {1, 2, 3}, "empty": {}} {
		if _, err := New(Config{ID: 2, Snapshot: b, Decide: s.decide}); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// A message that contradicts the log ends this member's run with an error, without a panic.
func TestContradictionIsAnError(t *testing.T) {
	s := newCluster(t, 2)
	s.train = false
	s.grow(2)
	m := &raftpb.Message{Type: raftpb.MsgHeartbeat.Enum(), From: new(uint64(1)), To: new(uint64(2)), Term: new(uint64(9)), Commit: new(uint64(1 << 40))}
	c := s.cores[2]
	c.sendRaft(m)
	out := c.Take().Messages
	c.Step(&Message{Kind: wire.ControlRaft, From: 1, To: 2, Body: out[len(out)-1].Body})
	c.Tick()
	c.Leave("x")
	if e := c.Take().Events; len(e) != 1 || !strings.Contains(e[0].(Stopped).Reason, "broken") {
		t.Errorf("events %+v", e)
	}
}
