package swarm

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"shoal/swarm/member"
	"shoal/swarm/wire"
)

const (
	askWait    = 3 * time.Second // for a member's part in a recovery
	ballotWait = 6 * time.Second // a member that gave its log waits so long for the new one
)

// ballot is whom this member has promised its log to, for a while. The loop owns it.
type ballot struct {
	generation, id uint64
	until          time.Time
}

func (b *ballot) open() bool { return time.Now().Before(b.until) }

// below says whether b must give way to another one, or has passed.
func (b *ballot) below(generation, id uint64) bool {
	return !b.open() || b.generation < generation || b.generation == generation && b.id <= id
}

// Recover begins the run's log anew, under the next generation, with this member as its only voter, from the highest log
// among the members that it reaches (PROTOCOL.md 19); where these don't hold all of the model, from the newest checkpoint that
// one of them can read. It works only while the run is stuck; who isn't reached is taken to
// be dead, is told so when it comes back, and may join again.
//
// Two who recover at the same time don't make two logs among members that reach each other. Whoever gives its log (first
// round) is stuck itself, and promises not to go on with it, nor to follow anybody but the asker or one with a higher
// (generation, member id); so of two askers one is told no, and gives up. The one that is left adopts the new log itself
// (second round), and then has the others adopt it: whoever isn't bound by a higher promise does so at once, others when a
// link finds that they are a generation behind. Whoever is in a log that goes on gives nothing to
// anybody, so that a log with commits is never replaced by an older one.
func (n *Node) Recover(ctx context.Context) error {
	if !n.begin() {
		return ErrClosed
	}
	defer n.tasks.Done()
	ctx, cancel := context.WithTimeoutCause(ctx, ballotWait-time.Second, errors.New("swarm: recover: it took too long, try again"))
	defer cancel()
	defer context.AfterFunc(n.ctx, cancel)()

	var err error
	var own []byte
	var generation uint64
	if !n.call(func() {
		if n.stuck == "" {
			err = errors.New("the run isn't stuck")
			return
		}
		generation = member.NextGeneration(n.core.Generation(), n.id)
		own, err = n.promise(generation, n.id)
	}) {
		return ErrClosed
	}
	if err != nil {
		return fmt.Errorf("swarm: recover: %w", err)
	}
	snapshots, alive, reads, err := n.collect(ctx, generation)
	if err != nil {
		n.call(func() { n.withdraw(generation) })
		return fmt.Errorf("swarm: recover: %w", err)
	}
	fresh, err := member.Recovered(append(snapshots, own), n.id, append(alive, n.id), reads)
	if err != nil {
		n.call(func() { n.withdraw(generation) })
		if n.cfg.LastResort != "" {
			err = fmt.Errorf("%w: %s", err, n.cfg.LastResort)
		}
		return fmt.Errorf("swarm: recover: %w", err)
	}
	if !n.call(func() { err = n.adopt(generation, n.id, fresh) }) {
		return ErrClosed
	}
	if err != nil {
		return fmt.Errorf("swarm: recover: %w", err)
	}
	n.offerAll(ctx, alive)
	return nil
}

// collect asks all other members for their logs, and what checkpoint they can read. Those who don't answer are taken for dead; a no ends the recovery.
func (n *Node) collect(ctx context.Context, generation uint64) (snapshots [][]byte, alive []uint64, reads map[uint64]string, err error) {
	ctx, cancel := context.WithTimeout(ctx, askWait)
	defer cancel()
	reads = map[uint64]string{}
	n.call(func() { reads[n.id] = n.core.CanRead() })
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, m := range n.others() {
		all.Go(func() {
			q := n.toMember(wire.ControlSnapshot, m.ID)
			q.Generation = generation
			answer, why := n.askMember(ctx, m, q)
			mu.Lock()
			defer mu.Unlock()
			var no *noError
			switch {
			case why == nil && answer.Kind == wire.ControlAnswer:
				snapshots, alive = append(snapshots, answer.Body), append(alive, m.ID)
				reads[m.ID] = answer.Saved
			case errors.As(why, &no):
				err = no
			}
		})
	}
	all.Wait()
	slices.Sort(alive)
	return snapshots, alive, reads, err
}

// offerAll gives this member's log to those who are to follow it.
func (n *Node) offerAll(ctx context.Context, alive []uint64) {
	var all sync.WaitGroup
	for _, m := range n.others() {
		if slices.Contains(alive, m.ID) {
			all.Go(func() { n.offerIn(ctx, m) })
		}
	}
	all.Wait()
}

// offer gives this member's log to a member that is a generation behind.
func (n *Node) offer(to Member) { n.offerIn(n.ctx, to) }

func (n *Node) offerIn(ctx context.Context, to Member) {
	if _, ok := n.known.Load().members[to.ID]; !ok {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, askWait)
	defer cancel()
	m := n.toMember(wire.ControlAdopt, to.ID)
	n.call(func() { m.Body, m.Generation = n.core.Snapshot(), n.core.Generation() })
	if _, err := n.askMember(ctx, to, m); err != nil {
		n.cfg.Log.Warn("a member didn't take over the log", "peer", to.Peer, "err", err)
	}
}

// answerSnapshot gives the own log to a member that wants to begin it anew.
func (n *Node) answerSnapshot(m *wire.Control) *wire.Control {
	answer := refusal(ErrClosed.Error())
	n.call(func() {
		b, err := n.promise(m.Generation, m.From)
		if err != nil {
			answer = refusal(err.Error())
			return
		}
		answer = &wire.Control{Kind: wire.ControlAnswer, Body: b, Saved: n.core.CanRead()}
	})
	return answer
}

// answerAdopt takes over the log of a member that has begun it anew.
func (n *Node) answerAdopt(m *wire.Control) *wire.Control {
	answer := refusal(ErrClosed.Error())
	n.call(func() {
		if err := n.adopt(m.Generation, m.From, m.Body); err != nil {
			answer = refusal(err.Error())
			return
		}
		answer = &wire.Control{Kind: wire.ControlAccept}
	})
	return answer
}

// goesOn says why this member's log needs no new beginning, or "". A leader that was stopped stays one for who follows it;
// so it counts only while it is heard. It runs in the loop.
func (n *Node) goesOn() string {
	if n.core.Leader() != 0 && n.stuck == "" && !n.core.CutOff() {
		return "the run isn't stuck"
	}
	return ""
}

// promise gives this member's log for a recovery, and lets nothing be added to it meanwhile. It runs in the loop.
func (n *Node) promise(generation, id uint64) ([]byte, error) {
	if why := n.goesOn(); why != "" {
		return nil, errors.New(why)
	}
	if !n.ballot.below(generation, id) {
		return nil, errors.New("another member is recovering the run")
	}
	n.ballot = ballot{generation, id, time.Now().Add(ballotWait)}
	return n.core.Snapshot(), nil
}

// withdraw ends this member's own recovery. It runs in the loop.
func (n *Node) withdraw(generation uint64) {
	if n.ballot.generation == generation && n.ballot.id == n.id {
		n.ballot = ballot{}
	}
}

// adopt goes on with a log that was begun anew by member id. It runs in the loop.
func (n *Node) adopt(generation, id uint64, snapshot []byte) error {
	why := n.goesOn()
	switch {
	case generation <= n.core.Generation() && id != n.id:
		return fmt.Errorf("its log is of generation %d, this member's of %d", generation, n.core.Generation())
	case !n.ballot.below(generation, id):
		return errors.New("another member is recovering the run")
	case why != "":
		return errors.New(why)
	}
	n.ballot = ballot{}
	return n.core.Adopt(snapshot)
}
