package swarm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"shoal/swarm/wire"
)

// noError is a member's no to what another one has asked.
type noError struct{ peer, reason string }

func (e *noError) Error() string { return fmt.Sprintf("peer %s says: %s", Short(e.peer), e.reason) }

// askMember opens a control stream to another member for one question and its answer.
func (n *Node) askMember(ctx context.Context, to Member, m *wire.Control) (*wire.Control, error) {
	conn, err := n.open(ctx, exchangeMember{to.ID, to.Peer, to.Addrs}, wire.ControlProtocol)
	if err != nil {
		return nil, fmt.Errorf("ask peer %s: %w", to.Short(), err)
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	answer, err := ask(conn, m)
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, fmt.Errorf("ask peer %s: %w", to.Short(), err)
	case answer.Kind == wire.ControlRefused:
		return nil, &noError{to.Peer, answer.Reason}
	}
	return answer, nil
}

// answerMember answers what a member asks of another.
func (n *Node) answerMember(peer string, m *wire.Control) *wire.Control {
	now := n.known.Load()
	same := *m
	if m.Kind != wire.ControlHistory {
		same.Generation = now.generation // whoever begins the log anew is ahead, or behind
	}
	if why := n.refuseMember(now, peer, &same); why != "" {
		return refusal(why)
	}
	switch m.Kind {
	case wire.ControlSnapshot:
		return n.answerSnapshot(m)
	case wire.ControlAdopt:
		return n.answerAdopt(m)
	}
	var b []byte
	if n.cfg.History != nil {
		b = n.cfg.History(m.Body)
	}
	if len(b) == 0 || len(b) > wire.MaxHistory {
		return refusal(fmt.Sprintf("its history has %d bytes, 1 to %d can be told", len(b), wire.MaxHistory))
	}
	return &wire.Control{Kind: wire.ControlAnswer, Body: b}
}

// askHead is how long a member that is asked has, before the next one is asked as well: one that is stopped breaks no
// stream, and does not answer.
const askHead = 500 * time.Millisecond

// told is what one member has answered.
type told struct {
	body []byte
	err  error
}

// History asks other members of the view, the leader first, what happened in the run before this member came. Their
// Config.History gets ask.
func (n *Node) History(ctx context.Context, ask []byte) ([]byte, error) {
	if !n.begin() {
		return nil, ErrClosed
	}
	defer n.tasks.Done()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(n.ctx, func() { cancel(ErrClosed) })()
	left := n.others()
	answers := make(chan told, len(left)) // so that nobody waits for who has gone on
	err := errors.New("swarm: there is nobody else to ask")
	head := time.NewTicker(askHead)
	defer head.Stop()
	for asked := 0; ; {
		if len(left) > 0 {
			m := left[0]
			left = left[1:]
			asked++
			n.tasks.Go(func() { answers <- n.askHistory(ctx, m, ask) })
		}
		if asked == 0 {
			return nil, err
		}
		select {
		case a := <-answers:
			if a.err == nil {
				return a.body, nil
			}
			asked--
			err = a.err
		case <-head.C:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func (n *Node) askHistory(ctx context.Context, m Member, ask []byte) told {
	q := n.toMember(wire.ControlHistory, m.ID)
	q.Body = ask
	answer, err := n.askMember(ctx, m, q)
	switch {
	case err != nil:
		return told{nil, err}
	case answer.Kind != wire.ControlAnswer:
		return told{nil, unexpected(answer)}
	}
	return told{answer.Body, nil}
}

// others lists the other members, the leader first.
func (n *Node) others() (list []Member) {
	now := n.known.Load()
	for id, m := range now.members {
		if id != n.id {
			list = append(list, m)
		}
	}
	leaderFirst(list, now.leader.ID)
	return list
}

// leaderFirst sorts members, for asking one after another.
func leaderFirst(list []Member, lead uint64) {
	slices.SortFunc(list, func(a, b Member) int {
		switch {
		case a.ID == b.ID:
			return 0
		case a.ID == lead:
			return -1
		case b.ID == lead:
			return 1
		}
		return cmp.Compare(a.ID, b.ID)
	})
}
