package member

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"shoal/swarm/wire"
)

// sim steps several Cores by hand and checks the protocol's invariants after every event.
type sim struct {
	t        *testing.T
	rng      *rand.Rand
	cores    map[uint64]*Core
	ids      []uint64 // in the order of admission
	peers    int
	train    bool // members answer every new fence with a Ready
	dead     map[uint64]bool
	cut      map[[2]uint64]bool
	drop     float64                   // share of messages that vanish
	double   float64                   // share that arrives twice
	reorder  bool                      // messages arrive in any order
	hold     func(m *Message) bool     // messages to keep back
	held     []*Message                // by hold
	inFlight []*Message                //
	events   map[uint64][]Event        //
	entries  map[uint64][]Entry        // Ended, per member
	decided  func(d Decision) Decision // changes what Decide says
	same     map[[2]uint64]uint64      // per pair: up to which index their logs were compared
	config   func(c *Config)
}

func newSim(t *testing.T, peers int) *sim {
	return &sim{t: t, rng: rand.New(rand.NewPCG(1, uint64(peers))), cores: map[uint64]*Core{}, peers: peers, train: true, decided: endAt(30),
		dead: map[uint64]bool{}, cut: map[[2]uint64]bool{}, same: map[[2]uint64]uint64{}, events: map[uint64][]Event{}, entries: map[uint64][]Entry{}}
}

func (s *sim) person(id uint64) Member {
	return Member{ID: id, Peer: fmt.Sprintf("peer-%08d", id), Addrs: []string{"/memory/x"}, Offer: wire.Offer{Kind: "daemon", Weight: 1, ModelHash: "m", Fingerprint: "f"}}
}

// decide ends an attempt by what was tried: readies are all "step.attempt"; each third step is retried once.
func (s *sim) decide(prev []byte, readies [][]byte) Decision {
	for _, r := range readies {
		if !bytes.Equal(r, readies[0]) {
			s.t.Errorf("Ready %q and %q of one fence", r, readies[0])
		}
	}
	var step, attempt int
	fmt.Sscanf(string(readies[0]), "%d.%d", &step, &attempt)
	d := Decision{Kind: EntryCommit, Payload: readies[0]}
	if step%3 == 2 && attempt == 0 {
		d.Kind = EntryRetry
	}
	if prev != nil {
		if want := after(prev); want != string(readies[0]) {
			s.t.Errorf("after %q came %q, want %q", prev, readies[0], want)
		}
	}
	return s.decided(d)
}

// after is the Ready that follows an entry's payload.
func after(payload []byte) string {
	var step, attempt int
	fmt.Sscanf(string(payload), "%d.%d", &step, &attempt)
	if step%3 == 2 && attempt == 0 {
		return fmt.Sprintf("%d.%d", step, 1)
	}
	return fmt.Sprintf("%d.0", step+1)
}

func (s *sim) open(id uint64, snapshot []byte) *Core {
	s.t.Helper()
	cfg := Config{ID: id, Snapshot: snapshot, Decide: s.decide}
	if snapshot == nil {
		cfg.Genesis = Genesis{Self: s.person(id), Peers: s.peers, Run: []byte("run")}
	}
	if s.config != nil {
		s.config(&cfg)
	}
	c, err := New(cfg)
	if err != nil {
		s.t.Fatal(err)
	}
	s.cores[id] = c
	s.ids = append(s.ids, id)
	s.collect(id)
	return c
}

// admit lets member id in, by the creator, and opens its Core.
func (s *sim) admit(id uint64) {
	s.t.Helper()
	if refused, ok := s.cores[s.ids[0]].Admit(s.person(id)); refused != "" || !ok {
		s.t.Fatalf("member %d: refused %q, ok %v", id, refused, ok)
	}
	s.collect(s.ids[0])
	s.pump()
	for _, e := range s.events[s.ids[0]] {
		if a, ok := e.(Admitted); ok && a.ID == id {
			s.open(id, a.Snapshot)
			s.pump()
			return
		}
	}
	s.t.Fatalf("member %d was not admitted", id)
}

// grow opens a run of n members, ids 1 to n, and lets it start.
func (s *sim) grow(n int) {
	s.t.Helper()
	s.open(1, nil)
	s.pump()
	for id := uint64(2); id <= uint64(n); id++ {
		s.admit(id)
	}
	s.ticks(3)
}

// collect takes a Core's output; messages are encoded and decoded, so that Cores share nothing.
func (s *sim) collect(id uint64) {
	c := s.cores[id]
	for {
		out := c.Take()
		if len(out.Messages) == 0 && len(out.Events) == 0 {
			return
		}
		for _, m := range out.Messages {
			b, err := wire.AppendControl(nil, m)
			if err != nil {
				s.t.Fatal(err)
			}
			got, err := wire.ReadControl(bytes.NewReader(b), wire.MaxControl)
			if err != nil {
				s.t.Fatal(err)
			}
			if s.hold != nil && s.hold(got) {
				s.held = append(s.held, got)
			} else {
				s.post(got)
			}
		}
		for _, e := range out.Events {
			s.see(id, e)
		}
	}
}

func (s *sim) post(m *Message) {
	if s.rng.Float64() < s.drop {
		return
	}
	s.inFlight = append(s.inFlight, m)
	if s.rng.Float64() < s.double {
		again := *m
		s.inFlight = append(s.inFlight, &again)
	}
}

func (s *sim) see(id uint64, e Event) {
	s.events[id] = append(s.events[id], e)
	switch e := e.(type) {
	case Started:
		if s.train {
			s.ready(id, e.View.Fence, "0.0")
		}
	case Ended:
		s.entries[id] = append(s.entries[id], e.Entry)
		if s.train && e.Entry.Kind != EntryDone {
			s.ready(id, e.Entry.Fence, after(e.Entry.Payload))
		}
	}
}

// begin has everybody train that grow has left idle.
func (s *sim) begin() {
	s.train = true
	for _, id := range s.ids {
		s.ready(id, s.view(id).Fence, "0.0")
		s.collect(id)
	}
}

func (s *sim) ready(id, fence uint64, payload string) {
	if err := s.cores[id].SetReady(fence, []byte(payload)); err != nil {
		s.t.Error(err)
	}
}

// pump delivers what is in flight until nothing is, or 20000 messages were.
func (s *sim) pump() {
	for n := 0; len(s.inFlight) > 0 && n < 20000; n++ {
		i := 0
		if s.reorder {
			i = s.rng.IntN(len(s.inFlight))
		}
		m := s.inFlight[i]
		s.inFlight = slices.Delete(s.inFlight, i, i+1)
		c := s.cores[m.To]
		if c == nil || s.dead[m.To] || s.dead[m.From] || s.cut[[2]uint64{m.From, m.To}] {
			continue
		}
		c.Step(m)
		s.collect(m.To)
	}
	s.check()
}

// tick lets a tick pass on every live member, with all messages delivered in between.
func (s *sim) tick() {
	for _, id := range s.ids {
		if !s.dead[id] {
			s.cores[id].Tick()
			s.collect(id)
			s.pumpSome()
		}
	}
	s.pump()
}

func (s *sim) pumpSome() {
	if s.reorder { // leave some for later
		keep := slices.Clone(s.inFlight[len(s.inFlight)/2:])
		s.inFlight = s.inFlight[:len(s.inFlight)/2]
		s.pump()
		s.inFlight = append(keep, s.inFlight...)
		return
	}
	s.pump()
}

func (s *sim) ticks(n int) {
	for range n {
		s.tick()
	}
}

// kill takes a process away; the others notice at once that its streams are reset and can't be dialled.
func (s *sim) kill(id uint64) {
	s.dead[id] = true
	for _, o := range s.ids {
		if !s.dead[o] {
			s.cores[o].LinkDown(id)
		}
	}
}

func (s *sim) leader() uint64 {
	for _, id := range s.ids {
		if !s.dead[id] && s.cores[id].isLeader() && s.cores[id].log.term == s.cores[id].rn.BasicStatus().GetTerm() {
			return id
		}
	}
	return 0
}

// stopped is why a member's run has ended, or "".
func (s *sim) stopped(id uint64) string {
	for _, e := range s.events[id] {
		if e, ok := e.(Stopped); ok {
			return e.Reason
		}
	}
	return ""
}

func (s *sim) view(id uint64) *View {
	for _, e := range s.events[id] {
		if e, ok := e.(Started); ok {
			return &e.View
		}
	}
	return nil
}

// check asserts what must hold at any moment.
func (s *sim) check() {
	s.t.Helper()
	for i, a := range s.ids {
		for _, b := range s.ids[:i] {
			s.samePrefix(a, b)
			n := min(len(s.entries[a]), len(s.entries[b]))
			for k := range n {
				x, y := s.entries[a][k], s.entries[b][k]
				if x.Fence != y.Fence || x.Kind != y.Kind || !bytes.Equal(x.Payload, y.Payload) {
					s.t.Fatalf("entry %d: member %d has %+v, member %d has %+v", k, a, x, b, y)
				}
			}
		}
		last := uint64(0)
		for _, e := range s.entries[a] {
			if e.Fence <= last {
				s.t.Fatalf("member %d: fence %d after %d", a, e.Fence, last)
			}
			last = e.Fence
		}
		c := s.cores[a]
		if lead := c.Leader(); lead != 0 && lead != a && c.rn != nil && s.stopped(a) == "" {
			if _, ok := c.st.find(lead); !ok { // it refuses a stranger's stream, and would be alone for ever
				s.t.Fatalf("member %d follows %d, whose admission it has not applied", a, lead)
			}
		}
		if r := s.stopped(a); strings.Contains(r, "broken") || strings.Contains(r, "missed") {
			s.t.Fatalf("member %d: %s", a, r)
		}
	}
}

// samePrefix compares what two members have applied, as far as both still hold it.
func (s *sim) samePrefix(a, b uint64) {
	x, y := s.cores[a], s.cores[b]
	fx, _ := x.storage.FirstIndex()
	fy, _ := y.storage.FirstIndex()
	pair := [2]uint64{a, b}
	lo, hi := max(fx, fy, s.same[pair]), min(x.log.applied, y.log.applied)+1
	if lo >= hi {
		return
	}
	s.same[pair] = hi // what is applied does not change
	ex, err := x.storage.Entries(lo, hi, 1<<40)
	if err != nil {
		s.t.Fatal(err)
	}
	ey, err := y.storage.Entries(lo, hi, 1<<40)
	if err != nil {
		s.t.Fatal(err)
	}
	for i := range ex {
		if !proto.Equal(ex[i], ey[i]) {
			s.t.Fatalf("logs differ at %d: member %d has %v, member %d has %v", lo+uint64(i), a, ex[i], b, ey[i])
		}
	}
}
