package member

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/cryptotest"

	"shoal/internal/place"
)

var (
	schedules = flag.Int("schedules", 0, "number of random schedules; 0: as many as fit a usual test run")
	seedFlag  = flag.Uint64("seed", 0, "first seed of the random schedules; of one schedule alone, all that happens is told")
)

// schedule is a world in which things go wrong at random, until calm; then it must end well.
type schedule struct {
	*world
	calm int64      // moment after which nothing more goes wrong
	more *rand.Rand // for disasters
	doom int        // how often one is tried before other mischief
}

// shape makes a world from a seed.
func shape(seed uint64) (toy, setup, *rand.Rand) {
	rng := rand.New(rand.NewPCG(seed, 3))
	s := setup{peers: 1 + rng.IntN(5), backups: rng.IntN(4) - 1, late: 0.03 * float64(rng.IntN(3)), snapshots: []int{3, 12, 1000}[rng.IntN(3)]}
	if s.backups == 0 && rng.IntN(2) == 0 {
		s.backups = 1
	}
	if rng.IntN(3) == 0 {
		s.weights = []int64{5, 1, 2}
	}
	if rng.IntN(3) == 0 && s.peers > 2 {
		s.browsers = 1
	}
	if rng.IntN(2) == 0 {
		s.drop, s.double = 0.02*float64(rng.IntN(4)), 0.05
	}
	s.timing = Timing{Beat: 2, Election: 6, Resend: 4, Down: 5, Suspect: 16, Stuck: 24, Deadline: 14, LostAfter: 400}
	y := toyFor(rng, seed, 6+rng.IntN(14))
	s.flaps = rng.IntN(8) == 0
	if seed%4 == 2 {
		s.saving(seed)
	}
	return y, s, rng
}

// saving makes a setup one with checkpoints, in which there may be a disaster.
func (s *setup) saving(seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 7))
	s.saves, s.timing.LostAfter = 1+rng.IntN(3), 100
	s.peers, s.backups, s.browsers = 3+rng.IntN(3), rng.IntN(2), 0
}

func newSchedule(t testing.TB, seed uint64, change func(*setup)) *schedule {
	y, s, rng := shape(seed)
	if change != nil {
		change(&s)
	}
	d := &schedule{world: newWorld(t, seed, y, s), calm: int64(30+rng.IntN(120)) * perTick, more: rand.New(rand.NewPCG(seed, 9))}
	if d.toy.saves > 0 {
		d.doom = 1 + d.more.IntN(12)
	}
	return d
}

// run lets it happen and says what was wrong, or "".
func (d *schedule) run() string {
	d.start()
	d.at(perTick*int64(2+d.rng.IntN(20)), d.mischief)
	d.at(d.calm, d.settleDown)
	limit := int(d.calm/perTick) + 60*d.toy.steps + 700
	if d.toy.saves > 0 {
		limit += 1000 // until the run goes back, and to come there again
	}
	d.ticks(limit, d.over)
	d.score(limit)
	if len(d.failed) > 0 {
		return d.failed[0]
	}
	return ""
}

// over says whether the run is at its end for all who are there.
func (d *schedule) over() bool {
	ended := false
	for _, id := range d.ids {
		p := d.procs[id]
		if !p.over && !p.en.done || p.stopped {
			return false
		}
		ended = ended || p.en.done
	}
	return ended
}

// score asserts that it has ended well (invariants 2 and 12).
func (d *schedule) score(limit int) {
	if len(d.failed) > 0 {
		return
	}
	ended := 0
	for _, id := range d.ids {
		p := d.procs[id]
		if !p.en.done {
			if !p.over {
				d.fault(p, "12: no end within %d ticks: at fence %d, %s", limit, p.core.Fence(), p.describe())
			}
			continue
		}
		ended++
		for r, x := range p.en.shard {
			if x.step != int64(d.toy.steps) || x.value != d.truth.values[d.toy.steps][r] {
				d.fault(p, "2: range %d ends at step %d with %x", r, x.step, x.value)
			}
		}
	}
	if ended == 0 {
		d.fault(nil, "12: nobody came to the end")
	}
}

// mischief does one thing that can go wrong, and plans the next.
func (d *schedule) mischief() {
	if d.newest != nil && d.newest.entry.Kind == EntryDone {
		d.settleDown()
		return
	}
	if d.now >= d.calm {
		return
	}
	d.at(perTick*int64(1+d.rng.IntN(14)), d.mischief)
	p := d.pick(func(p *proc) bool { return !p.over })
	if p == nil || d.newest == nil { // before the first view a run ends with its creator
		return
	}
	if d.doom > 0 {
		d.doom--
		d.disaster()
		return
	}
	ticks := func(n int) int64 { return perTick * int64(1+d.rng.IntN(n)) }
	if d.setup.flaps && d.rng.IntN(3) > 0 {
		d.flap()
		return
	}
	what := d.rng.IntN(10)
	if what < 7 && !d.settled() {
		return // a death and somebody thrown out by mistake are two deaths
	}
	switch what {
	case 0, 1:
		if d.rng.IntN(6) > 0 || !d.massacre() {
			d.kill(p)
		}
	case 2:
		p.halt()
		d.at(ticks(60), p.resume)
	case 3: // just a moment
		p.halt()
		d.at(ticks(10), p.resume)
	case 4:
		d.partition(ticks(50))
	case 5:
		if o := d.pick(func(o *proc) bool { return !o.over && o != p }); o != nil {
			d.part([]*proc{p}, []*proc{o}, ticks(60))
		}
	case 6:
		p.slow = 1 + d.rng.IntN(40)
		d.note("%d is slow by %d ticks", p.id, p.slow)
		d.at(ticks(60), func() { p.slow, p.trouble = 0, d.now })
	case 7, 8:
		if len(d.ids) < 12 {
			d.join(fmt.Sprintf("q%d", len(d.asks)), d.rng.IntN(4) == 0, d.weight(len(d.ids)))
		}
	case 9:
		if d.quiet() && d.replaceable(p) {
			d.note("%d wants to leave", p.id)
			p.leaving = true
			p.core.Leave("had enough")
			p.collect()
		}
	}
}

// flap cuts a leader off, so that there may be two for a while.
func (d *schedule) flap() {
	leader := d.pick(func(p *proc) bool { return p.runs() && p.core.isLeader() })
	if leader == nil || !d.settled() {
		return
	}
	var others []*proc
	for _, id := range d.ids {
		if p := d.procs[id]; p != leader && !p.over {
			others = append(others, p)
		}
	}
	d.part([]*proc{leader}, others, perTick*int64(d.setup.timing.Election+d.rng.IntN(12)))
}

// partition cuts some processes off from all others for a while.
func (d *schedule) partition(length int64) {
	var here, there []*proc
	for _, id := range d.ids {
		if p := d.procs[id]; !p.over && d.rng.IntN(2) == 0 {
			here = append(here, p)
		} else if !p.over {
			there = append(there, p)
		}
	}
	d.part(here, there, length)
}

func (w *world) part(here, there []*proc, length int64) {
	if len(here) == 0 || len(there) == 0 {
		return
	}
	w.sever(here, there)
	w.at(length, func() { w.mend(here, there) })
}

func ids(list []*proc) (v []uint64) {
	for _, p := range list {
		v = append(v, p.id)
	}
	return v
}

// sever breaks the paths between some members and others: their streams break, or all is just silent.
func (w *world) sever(here, there []*proc) {
	w.note("no path between %v and %v", ids(here), ids(there))
	broken := w.rng.IntN(2) == 0
	for _, a := range here {
		for _, b := range there {
			w.cut[pair(a.id, b.id)] = true
			if broken {
				w.at(perTick+w.rng.Int64N(perTick), func() { a.link(b.id, false) })
				w.at(perTick+w.rng.Int64N(perTick), func() { b.link(a.id, false) })
			}
		}
	}
}

func (w *world) mend(here, there []*proc) {
	w.note("paths between %v and %v again", ids(here), ids(there))
	for _, a := range here {
		for _, b := range there {
			delete(w.cut, pair(a.id, b.id))
			a.trouble, b.trouble, w.hurt = w.now, w.now, w.now
			w.at(1+w.rng.Int64N(perTick), func() { a.link(b.id, true) })
			w.at(1+w.rng.Int64N(perTick), func() { b.link(a.id, true) })
		}
	}
}

// link tells of a stream that has broken, or that there is one again.
func (p *proc) link(to uint64, up bool) {
	p.receive(func() {
		o := p.w.procs[to]
		if down := p.w.cut[pair(p.id, to)]; down == up {
			return // it has changed meanwhile
		}
		if up && !o.over {
			p.core.LinkUp(to)
		} else if !up {
			p.core.LinkDown(to)
		}
		p.core.Unreachable(to) // what was sent meanwhile is lost
	})
}

// quiet says whether the run is as redundant as it should be and nobody is in trouble.
func (d *schedule) quiet() bool {
	if d.newest == nil || len(d.cut) > 0 {
		return false
	}
	for _, id := range d.ids {
		if p := d.procs[id]; !p.over && p.troubled() {
			return false
		}
	}
	for _, id := range d.newest.ids {
		if p := d.procs[id]; p.over {
			return false
		}
	}
	return true
}

// settled says whether everybody whose death matters lives: members of the view, and voters.
func (d *schedule) settled() bool {
	ids := slices.Clone(d.newest.ids)
	for _, id := range d.ids {
		if p := d.procs[id]; !p.over {
			ids = append(append(ids, p.core.conf.GetVoters()...), p.core.conf.GetVotersOutgoing()...)
		}
	}
	return !slices.ContainsFunc(ids, func(id uint64) bool { return d.procs[id].over })
}

// replaceable says whether the log can do without a member: another daemon is in the view.
func (d *schedule) replaceable(p *proc) bool {
	return slices.ContainsFunc(d.newest.ids, func(id uint64) bool {
		return id != p.id && d.procs[id].self.Offer.Kind == "daemon"
	})
}

// kill ends a process, or two, if it was promised that the run survives that.
func (d *schedule) kill(p *proc) {
	victims := []*proc{p}
	if d.rng.IntN(3) == 0 && p.core.Promise() >= 2 { // with fewer, voters may just be changing to those that die
		if o := d.pick(func(o *proc) bool { return !o.over && o != p }); o != nil {
			victims = append(victims, o)
		}
	}
	if !d.quiet() || !d.survivable(victims) || d.setup.backups == 0 {
		return
	}
	silent := d.rng.IntN(4) == 0
	for _, v := range victims {
		v.silent = silent
		v.end("is killed")
		if d.rng.IntN(2) == 0 {
			d.at(perTick*int64(1+d.rng.IntN(20)), func() { d.join(v.self.Peer, v.self.Offer.Kind == "browser", v.self.Offer.Weight) })
		}
	}
}

// disaster kills all who hold some range, where the others are a quorum and one of them can read a checkpoint: they go back to
// that (PROTOCOL.md 8).
func (d *schedule) disaster() {
	m := d.newest
	var victims []*proc
	for h := range m.place.Holders(d.more.IntN(len(m.place.Owner))) {
		victims = append(victims, d.procs[m.ids[h]])
	}
	reads := slices.ContainsFunc(m.ids, func(id uint64) bool {
		return d.lives(id, victims) && !d.procs[id].leaving && d.procs[id].core.CanRead() != ""
	})
	if !d.quiet() || !reads || !d.quorate(victims) {
		return
	}
	for _, v := range victims {
		v.end("is killed, and nobody holds what it held")
	}
}

// massacre kills so many voters that there is no quorum, while somebody has each range: then the survivors begin the log
// anew (PROTOCOL.md 19).
func (d *schedule) massacre() bool {
	var victims []*proc
	daemons := 0
	for _, id := range d.newest.ids {
		if p := d.procs[id]; d.rng.IntN(2) == 0 {
			victims = append(victims, p)
		} else if p.self.Offer.Kind == "daemon" {
			daemons++
		}
	}
	if !d.quiet() || d.newest.step == 0 || daemons == 0 || !d.held(victims) || d.quorate(victims) {
		return false
	}
	for _, v := range victims {
		v.end("is killed, and no quorum is left")
	}
	d.at(perTick*int64(40+d.rng.IntN(20)), d.rescue)
	return true
}

// rescue has the survivors begin the log anew.
func (d *schedule) rescue() {
	self := d.pick(func(p *proc) bool {
		return p.runs() && p.stuck != "" && p.self.Offer.Kind == "daemon" && slices.Contains(d.newest.ids, p.id)
	})
	if self == nil {
		return // the voters had just changed, and there is one
	}
	d.rescueBy(self)
}

// rescueBy begins the log anew with a member and all others that it reaches.
func (w *world) rescueBy(self *proc) {
	var snapshots [][]byte
	var alive []uint64
	reads := map[uint64]string{}
	for _, m := range self.core.Members() {
		if p := w.procs[m.ID]; p != nil && p.runs() {
			snapshots, alive = append(snapshots, p.core.Snapshot()), append(alive, m.ID)
			reads[m.ID] = p.core.CanRead()
			w.survived = max(w.survived, p.core.Applied())
		}
	}
	fresh, err := Recovered(snapshots, self.id, alive, reads)
	if err != nil {
		w.fault(self, "19: %v", err)
		return
	}
	w.note("%d recovers with %v", self.id, alive)
	for _, id := range alive {
		w.at(1+w.rng.Int64N(3*perTick), func() {
			p := w.procs[id]
			p.receive(func() {
				if err := p.core.Adopt(fresh); err != nil {
					w.fault(p, "19: %v", err)
				}
			})
		})
	}
}

// survivable says whether each range has a holder, and each configuration a quorum, without the victims.
func (d *schedule) survivable(victims []*proc) bool { return d.held(victims) && d.quorate(victims) }

func (d *schedule) lives(id uint64, victims []*proc) bool {
	p := d.procs[id]
	return p != nil && !p.over && !slices.Contains(victims, p)
}

func (d *schedule) held(victims []*proc) bool {
	m := d.newest
	for r := range m.place.Owner {
		if !slices.ContainsFunc(slices.Collect(m.place.Holders(r)), func(h int) bool { return d.lives(m.ids[h], victims) }) {
			return false
		}
	}
	return true
}

func (d *schedule) quorate(victims []*proc) bool {
	for _, id := range d.ids {
		p := d.procs[id]
		if p.over {
			continue
		}
		for _, voters := range [][]uint64{p.core.conf.GetVoters(), p.core.conf.GetVotersOutgoing()} {
			live := 0
			for _, v := range voters {
				if d.lives(v, victims) {
					live++
				}
			}
			if len(voters) > 0 && 2*live <= len(voters) {
				return false
			}
		}
	}
	return true
}

// settleDown ends all trouble.
func (d *schedule) settleDown() {
	d.note("calm")
	d.setup.drop = 0
	for _, id := range d.ids {
		p := d.procs[id]
		if p.slow > 0 {
			p.slow, p.trouble = 0, d.now
		}
		p.resume()
	}
}

// stopped is told why a member is out. One that was taken out comes again.
func (w *world) stopped(p *proc, e Stopped) {
	if !e.Gone {
		if w.ends {
			return
		}
		w.fault(p, "12: the run has ended: %s", e.Reason)
		return
	}
	p.end("is out")
	w.at(1+w.rng.Int64N(4*perTick), func() { w.join(p.self.Peer, p.self.Offer.Kind == "browser", p.self.Offer.Weight) })
}

// describe says for a person where a member is.
func (p *proc) describe() string {
	s := fmt.Sprintf("%v, leader %d, voters %v, members", p.core.rn.BasicStatus().RaftState, p.core.Leader(), p.core.Voters())
	for _, m := range p.core.Members() {
		s += fmt.Sprintf(" %d", m.ID)
	}
	if a := p.en.att; a != nil {
		s += fmt.Sprintf(", view %d as rank %d, step %d, %s, waits for %v", p.en.view.Number, p.en.view.Rank, a.step, p.en.phase(), p.en.waiting())
	}
	if p.stuck != "" {
		s += ", stuck: " + p.stuck
	}
	return s
}

// describe is an entry in one line.
func describe(e Entry) string {
	s := fmt.Sprintf("%d %s", e.Fence, map[EntryKind]string{EntryCommit: "commit", EntryRetry: "retry", EntryDone: "done", EntryView: "again", EntryLate: "late", EntryRestore: "restore"}[e.Kind])
	step, _ := following(e.Run, e.Payload)
	if e.Kind == EntryCommit || e.Kind == EntryDone {
		step--
	}
	s += fmt.Sprintf(" step %d", step)
	s += fmt.Sprintf(" work %v", e.Work)
	for _, f := range e.Fills {
		s += fmt.Sprintf(" fill %d>%d", f.Range, f.To)
	}
	if v := e.View; v != nil {
		s += fmt.Sprintf(", view %d of", v.Number)
		for _, m := range v.Members {
			s += fmt.Sprintf(" %d", m.ID)
		}
		s += ", placed" + layout(v.Place) + ": " + v.Reason
	}
	return s
}

// layout is a placement: for each range its owner, then its backups.
func layout(m place.Map) (s string) {
	for r, o := range m.Owner {
		s += fmt.Sprintf(" %d", o)
		for _, b := range m.Backups[r] {
			s += fmt.Sprintf("+%d", b)
		}
	}
	return s
}

// TestSchedules runs random schedules and asserts the invariants of PROTOCOL.md after each event.
func TestSchedules(t *testing.T) {
	n, first := *schedules, *seedFlag
	switch {
	case n == 0 && first > 0:
		n = 1
	case n == 0 && (testing.Short() || raceEnabled):
		n = 40
	case n == 0:
		n = 500
	}
	for seed, wrong := first, 0; seed < first+uint64(n) && wrong < 5; seed++ {
		cryptotest.SetGlobalRandom(t, seed) // raft's election timeouts
		d := newSchedule(t, seed, nil)
		d.traced = n == 1
		if fault := d.run(); fault != "" {
			for _, line := range d.trace {
				t.Log(line)
			}
			wrong++
			t.Errorf("seed %d: %s\nreplay: go test ./swarm/member -run '^TestSchedules$' -schedules 1 -seed %d -v", seed, fault, seed)
		}
	}
}

// TestDisasters runs schedules with checkpoints, in which all holders of some range die now and then: the run goes back.
func TestDisasters(t *testing.T) {
	n, back := uint64(150), 0
	if testing.Short() || raceEnabled {
		n = 30
	}
	for seed := range n {
		cryptotest.SetGlobalRandom(t, seed)
		d := newSchedule(t, seed, func(s *setup) { s.saving(seed) })
		if fault := d.run(); fault != "" {
			t.Errorf("seed %d: %s", seed, fault)
		}
		back += d.restores
	}
	t.Logf("%d times the run went back", back)
	if back < int(n)/5 {
		t.Errorf("in %d schedules the run went back %d times: too few", n, back)
	}
}

// TestReplay runs schedules twice: a seed says all that happens.
func TestReplay(t *testing.T) {
	for seed := range uint64(20) {
		var sums [2]uint64
		for i := range sums {
			cryptotest.SetGlobalRandom(t, seed)
			d := newSchedule(t, seed, nil)
			d.run()
			sums[i] = d.sum
		}
		if sums[0] != sums[1] {
			t.Errorf("seed %d: two runs differ", seed)
		}
	}
}
