package member

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"shoal/internal/place"
	"shoal/swarm/wire"
)

// lastResort is what the program says where checkpoints are kept.
const lastResort = "go on from the last checkpoint with shoal up --resume"

// cluster steps several Cores by hand and checks what must hold at any moment. Members do no work: they are
// ready a tick after an attempt has begun.
type cluster struct {
	t        *testing.T
	rng      *rand.Rand
	cores    map[uint64]*Core
	ids      []uint64 // in the order of admission
	peers    int
	backups  int
	ranges   []place.Range
	train    bool            // members answer every new fence with a Ready, at their next tick
	due      map[uint64]bool // these have yet to do so
	idle     map[uint64]bool
	dead     map[uint64]bool
	cut      map[[2]uint64]bool
	drop     float64 // share of messages that vanish
	double   float64 // share that arrives twice
	reorder  bool    // messages arrive in any order
	hold     func(m *Message) bool
	held     []*Message // by hold
	inFlight []*Message
	events   map[uint64][]Event
	entries  map[uint64][]Entry        // Ended, per member
	fences   map[uint64]Entry          // as first seen
	decided  func(d Decision) Decision // changes what Decide says
	same     map[[2]uint64]uint64      // per pair: up to which index their logs were compared
	config   func(c *Config)
	person   func(id uint64) Member
}

func newCluster(t *testing.T, peers int) *cluster {
	s := &cluster{t: t, rng: rand.New(rand.NewPCG(1, uint64(peers))), cores: map[uint64]*Core{}, peers: peers, backups: 1, train: true,
		decided: endAt(30), idle: map[uint64]bool{}, due: map[uint64]bool{}, dead: map[uint64]bool{}, cut: map[[2]uint64]bool{}, same: map[[2]uint64]uint64{},
		events: map[uint64][]Event{}, entries: map[uint64][]Entry{}, fences: map[uint64]Entry{}, person: daemon}
	for unit := range 3 {
		for range 8 {
			s.ranges = append(s.ranges, place.Range{Group: unit, Size: 256})
		}
	}
	return s
}

func daemon(id uint64) Member {
	return Member{ID: id, Peer: fmt.Sprintf("peer-%08d", id), Addrs: []string{"/memory/x"}, Offer: wire.Offer{Kind: "daemon", Weight: 1, ModelHash: "m", Fingerprint: "f"}}
}

func browser(id uint64) Member {
	m := daemon(id)
	m.Offer.Kind = "browser"
	return m
}

// endAt makes the Commit of a step the run's end.
func endAt(step int) func(Decision) Decision {
	return func(d Decision) Decision {
		if string(d.Payload) == fmt.Sprintf("%d.0", step) {
			d.Kind = EntryDone
		}
		return d
	}
}

func never(d Decision) Decision { return d }

// decide ends an attempt by what was tried: readies are all "step.attempt"; each third step is retried once.
func (s *cluster) decide(_, prev []byte, work []int64, readies [][]byte) Decision {
	if len(work) != len(readies) {
		s.t.Errorf("work %v for %d members", work, len(readies))
	}
	for _, r := range readies {
		if want := after(prev); string(r) != want {
			s.t.Errorf("after %q came Ready %q, want %q", prev, r, want)
		}
	}
	var step, attempt int
	fmt.Sscanf(string(readies[0]), "%d.%d", &step, &attempt)
	d := Decision{Kind: EntryCommit, Payload: readies[0]}
	if step%3 == 2 && attempt == 0 {
		d.Kind = EntryRetry
	}
	return s.decided(d)
}

// after is the Ready that follows an entry's payload.
func after(payload []byte) string {
	if payload == nil {
		return "0.0"
	}
	var step, attempt int
	fmt.Sscanf(string(payload), "%d.%d", &step, &attempt)
	if step%3 == 2 && attempt == 0 {
		return fmt.Sprintf("%d.%d", step, 1)
	}
	return fmt.Sprintf("%d.0", step+1)
}

func (s *cluster) open(id uint64, snapshot []byte) *Core {
	s.t.Helper()
	cfg := Config{ID: id, Snapshot: snapshot, Decide: s.decide, LastResort: lastResort}
	if snapshot == nil {
		cfg.Genesis = Genesis{Self: s.person(id), Peers: s.peers, Run: []byte("run"), Ranges: s.ranges, Backups: s.backups}
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

// admit lets member id in, by whoever leads, and opens its Core.
func (s *cluster) admit(id uint64) {
	s.t.Helper()
	lead := s.leader()
	if lead == 0 {
		s.t.Fatal("nobody leads")
	}
	if refused, ok := s.cores[lead].Admit(s.person(id)); refused != "" || !ok {
		s.t.Fatalf("member %d: refused %q, ok %v", id, refused, ok)
	}
	s.collect(lead)
	s.pump()
	for _, e := range s.events[lead] {
		if a, ok := e.(Admitted); ok && a.ID == id {
			s.open(id, a.Snapshot)
			s.pump()
			return
		}
	}
	s.t.Fatalf("member %d was not admitted", id)
}

// grow opens a run of n members, ids 1 to n, and lets it start.
func (s *cluster) grow(n int) {
	s.t.Helper()
	s.open(1, nil)
	s.pump()
	for id := uint64(2); id <= uint64(n); id++ {
		s.admit(id)
	}
	s.ticks(3)
}

// collect takes a Core's output; messages are encoded and decoded, so that Cores share nothing.
func (s *cluster) collect(id uint64) {
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

func (s *cluster) post(m *Message) {
	if s.rng.Float64() < s.drop {
		return
	}
	s.inFlight = append(s.inFlight, m)
	if s.rng.Float64() < s.double {
		again := *m
		s.inFlight = append(s.inFlight, &again)
	}
}

func (s *cluster) see(id uint64, e Event) {
	s.events[id] = append(s.events[id], e)
	if e, ok := e.(Ended); ok {
		s.entries[id] = append(s.entries[id], e.Entry)
		s.compare(id, e.Entry)
		s.due[id] = s.train && !s.idle[id] && e.Entry.Kind != EntryDone && (e.Entry.View == nil || e.Entry.View.Rank >= 0)
	}
}

// compare checks that an entry is the same for everybody, but for what a member is told at once that has missed some.
func (s *cluster) compare(id uint64, e Entry) {
	s.t.Helper()
	first, ok := s.fences[e.Fence]
	if !ok {
		s.fences[e.Fence], first = e, e
	}
	if !bytes.Equal(e.Payload, first.Payload) || !slices.Equal(e.Work, first.Work) || !slices.Equal(e.Fills, first.Fills) ||
		e.Kind != first.Kind && e.Kind != EntryView && first.Kind != EntryView {
		s.t.Fatalf("member %d: entry %+v, another has %+v", id, e, first)
	}
	if e.View != nil && first.View != nil && (e.View.Number != first.View.Number || !e.View.Place.Equal(first.View.Place)) {
		s.t.Fatalf("member %d: view %+v, another has %+v", id, e.View, first.View)
	}
}

// begin has everybody train who was left idle.
func (s *cluster) begin() {
	s.train = true
	for _, id := range s.ids {
		if !s.dead[id] && !s.idle[id] && len(s.entries[id]) > 0 {
			s.work(id)
		}
	}
}

// work has a member be ready.
func (s *cluster) work(id uint64) {
	s.due[id] = false
	e := s.last(id)
	s.ready(id, e.Fence, after(e.Payload))
	s.collect(id)
}

func (s *cluster) ready(id, fence uint64, payload string) {
	if err := s.cores[id].SetReady(fence, []byte(payload)); err != nil {
		s.t.Error(err)
	}
}

// last is the newest entry that a member was told.
func (s *cluster) last(id uint64) Entry {
	s.t.Helper()
	if len(s.entries[id]) == 0 {
		s.t.Fatalf("member %d has no entry", id)
	}
	return s.entries[id][len(s.entries[id])-1]
}

// view is the newest view that a member was told, or nil.
func (s *cluster) view(id uint64) *View {
	for _, e := range slices.Backward(s.entries[id]) {
		if e.View != nil {
			return e.View
		}
	}
	return nil
}

// inView is who is in the newest view of a member.
func (s *cluster) inView(id uint64) (ids []uint64) {
	if v := s.view(id); v != nil {
		for _, m := range v.Members {
			ids = append(ids, m.ID)
		}
	}
	return ids
}

// step is that of the newest payload that a member was told, or -1.
func (s *cluster) step(id uint64) int {
	step := -1
	if len(s.entries[id]) > 0 {
		fmt.Sscanf(string(s.last(id).Payload), "%d.", &step)
	}
	return step
}

// pump delivers what is in flight until nothing is, or 20000 messages were.
func (s *cluster) pump() {
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
func (s *cluster) tick() {
	for _, id := range s.ids {
		if !s.dead[id] {
			if s.due[id] {
				s.work(id)
			}
			s.cores[id].Tick()
			s.collect(id)
			s.pumpSome()
		}
	}
	s.pump()
}

func (s *cluster) pumpSome() {
	if s.reorder { // leave some for later
		keep := slices.Clone(s.inFlight[len(s.inFlight)/2:])
		s.inFlight = s.inFlight[:len(s.inFlight)/2]
		s.pump()
		s.inFlight = append(keep, s.inFlight...)
		return
	}
	s.pump()
}

func (s *cluster) ticks(n int) {
	for range n {
		s.tick()
	}
}

// until lets ticks pass until something is so, at most n, and returns how many.
func (s *cluster) until(n int, what string, so func() bool) int {
	s.t.Helper()
	for i := range n {
		if so() {
			return i
		}
		s.tick()
	}
	if !so() {
		s.t.Fatalf("not after %d ticks: %s", n, what)
	}
	return n
}

// kill takes processes away; the others notice at once that their streams are reset and nobody listens there.
func (s *cluster) kill(ids ...uint64) {
	for _, id := range ids {
		s.dead[id] = true
	}
	for _, o := range s.ids {
		for _, id := range ids {
			if !s.dead[o] {
				s.cores[o].LinkDead(id)
				s.collect(o)
			}
		}
	}
	s.pump()
}

// silence stops processes: nothing comes from them, and they don't run.
func (s *cluster) silence(ids ...uint64) {
	for _, id := range ids {
		s.dead[id] = true
	}
}

// wake lets a stopped process go on (PROTOCOL.md 14).
func (s *cluster) wake(id uint64) {
	s.dead[id] = false
	s.cores[id].Resume()
}

func (s *cluster) leader() uint64 {
	for _, id := range s.ids {
		if !s.dead[id] && s.cores[id].isLeader() && s.cores[id].log.term == s.cores[id].rn.BasicStatus().GetTerm() {
			return id
		}
	}
	return 0
}

func (s *cluster) alive() (ids []uint64) {
	for _, id := range s.ids {
		if !s.dead[id] {
			ids = append(ids, id)
		}
	}
	return ids
}

func (s *cluster) allDone() bool {
	return !slices.ContainsFunc(s.alive(), func(id uint64) bool { return !s.cores[id].over })
}

// stopped is how a member's run has ended, or nil.
func (s *cluster) stopped(id uint64) *Stopped {
	for _, e := range s.events[id] {
		if e, ok := e.(Stopped); ok {
			return &e
		}
	}
	return nil
}

// stuck is what a member was last told about being stuck.
func (s *cluster) stuck(id uint64) (last Stuck) {
	for _, e := range s.events[id] {
		if e, ok := e.(Stuck); ok {
			last = e
		}
	}
	return last
}

// check asserts what must hold at any moment.
func (s *cluster) check() {
	s.t.Helper()
	for i, a := range s.ids {
		for _, b := range s.ids[:i] {
			s.samePrefix(a, b)
		}
		last := uint64(0)
		for _, e := range s.entries[a] {
			if e.Fence <= last {
				s.t.Fatalf("member %d: fence %d after %d", a, e.Fence, last)
			}
			last = e.Fence
		}
		c := s.cores[a]
		if lead := c.Leader(); lead != 0 && lead != a && !c.over && !s.dead[a] {
			if _, ok := c.st.find(lead); !ok && !c.Removed(lead) { // it would refuse a stranger's stream, and be alone for ever
				s.t.Fatalf("member %d follows %d, whose admission it has not applied", a, lead)
			}
		}
		if e := s.stopped(a); e != nil && strings.Contains(e.Reason, "broken") {
			s.t.Fatalf("member %d: %s", a, e.Reason)
		}
	}
}

// samePrefix compares what two members have applied, as far as both still hold it.
func (s *cluster) samePrefix(a, b uint64) {
	x, y := s.cores[a], s.cores[b]
	if x.rn == nil || y.rn == nil || x.Generation() != y.Generation() {
		return
	}
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
