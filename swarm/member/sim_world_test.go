package member

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"shoal/internal/place"
	"shoal/swarm/wire"
)

const (
	perTick = 8 // moments between two ticks of a member
	resets  = 3 // moments until a killed process's links are reset
)

// world is a run in which time, links and processes are made up: all that happens follows from its seed.
type world struct {
	t     testing.TB
	rng   *rand.Rand
	toy   toy
	truth *truth
	setup setup

	now    int64 // moment
	queue  events
	posted uint64
	procs  map[uint64]*proc // by member id, also those that have ended
	ids    []uint64         // of procs, in the order of their beginnings
	asks   []*ask           // processes that want to join
	given  uint64           // the highest member id given
	cut    map[[2]uint64]bool
	hurt   int64 // last moment at which a process went on or a path was mended

	chronicle
	hold   func(m *Message) bool // control messages to keep back, in held
	held   []*Message
	ends   bool     // the run may end with an error
	told   []string // what a script's reader is told
	trace  []string // what happened, if traced
	traced bool
	sum    uint64 // hash of all that happened
	failed []string
}

// setup is how a world behaves.
type setup struct {
	peers, backups int
	weights        []int64
	browsers       int // the last ones
	drop, double   float64
	late           float64 // share of messages that take long
	timing         Timing
	snapshots      int  // Config.SnapshotEntries
	saves          int  // steps from one checkpoint to the next; 0: there are none
	disks          bool // every daemon can read every checkpoint
	flaps          bool // leaders are cut off again and again, for about as long as an election takes
	broken         broken
	hasty          bool // nobody waits for the sums of what it holds for others (against PROTOCOL.md 6)
	burst          bool // after a stop, missed ticks come in one burst before all input (against PROTOCOL.md 14)
}

// happening is something at a moment.
type happening struct {
	at   int64
	tie  uint64
	what func()
}

type events []happening

func (q events) Len() int { return len(q) }
func (q events) Less(a, b int) bool {
	return q[a].at < q[b].at || q[a].at == q[b].at && q[a].tie < q[b].tie
}
func (q events) Swap(a, b int) { q[a], q[b] = q[b], q[a] }
func (q *events) Push(x any)   { *q = append(*q, x.(happening)) }
func (q *events) Pop() any {
	old := *q
	x := old[len(old)-1]
	*q = old[:len(old)-1]
	return x
}

func newWorld(t testing.TB, seed uint64, y toy, s setup) *world {
	w := &world{t: t, rng: rand.New(rand.NewPCG(seed, 5)), toy: y, setup: s, procs: map[uint64]*proc{}, cut: map[[2]uint64]bool{}, chronicle: newChronicle()}
	w.toy.saves = s.saves
	w.truth = y.solve()
	return w
}

// at has something happen after some moments. What happens at the same moment does so in random order.
func (w *world) at(delay int64, what func()) {
	heap.Push(&w.queue, happening{w.now + delay, w.rng.Uint64()>>20<<20 | w.posted&(1<<20-1), what})
	w.posted++
}

// step lets the next thing happen.
func (w *world) step() bool {
	if len(w.queue) == 0 || len(w.failed) > 0 {
		return false
	}
	h := heap.Pop(&w.queue).(happening)
	w.now = h.at
	h.what()
	return true
}

// ticks runs for so many ticks, or until something is wrong or done says so.
func (w *world) ticks(n int, done func() bool) bool {
	for end := w.now + int64(n)*perTick; len(w.queue) > 0 && w.queue[0].at <= end; {
		if done != nil && done() {
			return true
		}
		if !w.step() {
			return false
		}
	}
	return done != nil && done()
}

func (w *world) note(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	w.sum = mix(append([]uint64{w.sum, uint64(w.now)}, bytesOf(line)...)...)
	if w.traced {
		w.trace = append(w.trace, fmt.Sprintf("%6d  %s", w.now, line))
	}
}

func bytesOf(s string) (v []uint64) {
	for _, c := range []byte(s) {
		v = append(v, uint64(c))
	}
	return v
}

// fault notes that an invariant doesn't hold; the text begins with its number.
func (w *world) fault(p *proc, format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	if p != nil {
		line = fmt.Sprintf("member %d: %s", p.id, line)
	}
	w.note("FAULT %s", line)
	w.failed = append(w.failed, fmt.Sprintf("at moment %d: %s", w.now, line))
}

// person is the member that a process becomes; the same name means the same identity.
func (w *world) person(id uint64, name string, browser bool, weight int64) Member {
	m := Member{ID: id, Peer: name, Addrs: []string{"/memory/x"}, Offer: wire.Offer{Kind: "daemon", Weight: weight, ModelHash: "m", Fingerprint: "f"}}
	if browser {
		m.Offer.Kind = "browser"
	}
	return m
}

func (w *world) weight(i int) int64 {
	if len(w.setup.weights) == 0 {
		return 1
	}
	return w.setup.weights[i%len(w.setup.weights)]
}

// start begins the run with its creator; the others ask to join.
func (w *world) start() {
	w.given = 1
	self := w.person(1, "p1", false, w.weight(0))
	w.open(self, nil)
	for i := 1; i < w.setup.peers; i++ {
		w.join(fmt.Sprintf("p%d", i+1), i >= w.setup.peers-w.setup.browsers, w.weight(i))
	}
}

// open begins a process.
func (w *world) open(self Member, snapshot []byte) {
	p := &proc{w: w, id: self.ID, self: self, reset: map[uint64]bool{}}
	p.en = &engine{w: w, p: p, shard: map[int]piece{}}
	cfg := Config{LastResort: lastResort, ID: self.ID, Snapshot: snapshot, Timing: w.setup.timing, SnapshotEntries: w.setup.snapshots, broken: w.setup.broken,
		Genesis: Genesis{Self: self, Peers: w.setup.peers, Run: []byte("run"), Ranges: w.toy.ranges, Backups: w.setup.backups}}
	cfg.Decide = func(run, prev []byte, work []int64, readies [][]byte) Decision {
		return w.toy.decide(run, prev, work, readies, func(format string, args ...any) { w.fault(p, format, args...) })
	}
	var err error
	if p.core, err = New(cfg); err != nil {
		w.fault(nil, "New: %v", err)
		return
	}
	p.disk = w.toy.saves > 0 && self.Offer.Kind == "daemon" && (w.setup.disks || mix(w.toy.seed, 12, p.id)%5 > 0)
	p.readable()
	w.procs[p.id] = p
	w.ids = append(w.ids, p.id)
	w.tell("%d begins as %s", p.id, self.Peer)
	p.collect()
	w.at(1+w.rng.Int64N(perTick), p.clock)
}

// join has a process ask to be let in until it is, or is refused for good.
func (w *world) join(name string, browser bool, weight int64) {
	a := &ask{w: w, name: name, browser: browser, weight: weight}
	w.asks = append(w.asks, a)
	w.at(1+w.rng.Int64N(perTick), a.try)
}

// ask is a process that is no member yet.
type ask struct {
	w       *world
	name    string
	browser bool
	weight  int64
	id      uint64 // of the newest request
	since   int64
	done    bool
	refused string
}

func (a *ask) try() {
	w := a.w
	if a.done {
		return
	}
	w.at(2*perTick, a.try)
	if a.id != 0 && w.now-a.since < 12*perTick {
		return // an answer may be on its way
	}
	via := w.pick(func(p *proc) bool { return p.runs() })
	if via == nil {
		return
	}
	if a.id != 0 {
		w.abandoned[a.id] = true
	}
	w.given++
	a.id, a.since = w.given, w.now
	refused, ok := via.core.Admit(w.person(a.id, a.name, a.browser, a.weight))
	if ok {
		w.note("%s asks %d to join as %d: %q", a.name, via.id, a.id, refused)
	} else {
		a.id = 0 // it doesn't lead, or can't say yet
		w.given--
	}
	if refused != "" {
		a.id, a.refused = 0, refused
		a.done = strings.Contains(refused, "over")
	}
	via.collect()
}

// answered tells the asking process what the log has said about it.
func (w *world) answered(id uint64, snapshot []byte, refused string) {
	for _, a := range w.asks {
		if a.id != id || a.done {
			continue
		}
		if refused != "" {
			a.id, a.refused = 0, refused
			return
		}
		a.done = true
		w.at(1+w.rng.Int64N(2*perTick), func() { w.open(w.person(id, a.name, a.browser, a.weight), snapshot) })
	}
}

// pick chooses a process at random, or nil.
func (w *world) pick(fit func(p *proc) bool) *proc {
	var list []*proc
	for _, id := range w.ids {
		if p := w.procs[id]; fit(p) {
			list = append(list, p)
		}
	}
	if len(list) == 0 {
		return nil
	}
	return list[w.rng.IntN(len(list))]
}

func pair(a, b uint64) [2]uint64 { return [2]uint64{min(a, b), max(a, b)} }

// travel is how long something takes from one member to another.
func (w *world) travel() int64 {
	if w.rng.Float64() < w.setup.late {
		return 1 + w.rng.Int64N(5*perTick)
	}
	return 1 + w.rng.Int64N(4)
}

// tell is note for what the readers of scripts see.
func (w *world) tell(format string, args ...any) {
	w.note(format, args...)
	w.told = append(w.told, fmt.Sprintf(format, args...))
}

// post sends a control message, which may be lost, doubled and overtaken.
func (w *world) post(m *Message) {
	if w.hold != nil && w.hold(m) {
		w.held = append(w.held, m)
		return
	}
	from := w.procs[m.From]
	gen := from.core.Generation()
	copies := 1
	if w.rng.Float64() < w.setup.double {
		copies = 2
	}
	if w.rng.Float64() < w.setup.drop { // with its stream; the sender finds out
		copies = 0
		w.at(1+w.rng.Int64N(2*perTick), func() { from.receive(func() { from.core.Unreachable(m.To) }) })
	}
	for range copies {
		c := *m
		c.Body = slices.Clone(m.Body)
		c.IDs = slices.Clone(m.IDs)
		w.at(w.travel(), func() {
			if to := w.procs[c.To]; to != nil && w.reaches(from, to) && to.core.Generation() == gen {
				to.receive(func() { to.core.Step(&c) })
			}
		})
	}
}

// reaches says whether what from sent arrives.
func (w *world) reaches(from, to *proc) bool {
	return !to.over && !(from.over && w.now > from.endedAt+resets) && !w.cut[pair(from.id, to.id)]
}

// carry sends data: over a broken path they wait until it is mended, as a stream does,
// and for a receiver that has yet to adopt the sender's log.
func (w *world) carry(from, to uint64, f *frame) {
	gen := w.procs[from].core.Generation()
	copies := 1
	if w.rng.Float64() < w.setup.double {
		copies = 2
	}
	for range copies {
		var arrive func()
		arrive = func() {
			a, b := w.procs[from], w.procs[to]
			switch {
			case b == nil && !w.abandoned[to] || w.cut[pair(from, to)] || b != nil && b.core.Generation() < gen:
				w.at(2*perTick, arrive)
			case b != nil && w.reaches(a, b) && b.core.Generation() == gen:
				b.receive(func() {
					b.core.Alive(from)
					b.en.take(f)
					b.en.progress()
				})
			}
		}
		w.at(w.travel(), arrive)
	}
}

func toyFor(rng *rand.Rand, seed uint64, steps int) toy {
	y := toy{seed: seed, micro: 1 + rng.IntN(6), steps: steps}
	for g := range 1 + rng.IntN(3) {
		for range 1 + rng.IntN(5) {
			y.ranges = append(y.ranges, place.Range{Group: g, Size: 1 << (17 + rng.IntN(3))})
		}
	}
	return y
}
