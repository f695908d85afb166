package swarm

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"shoal/swarm/wire"
)

const (
	joinPause = 500 * time.Millisecond // before asking again
	joinTries = 60

	// A peer that was taken out by mistake and joins again is in no run meanwhile. So long others wait for it.
	betweenRuns = 5 * time.Second
)

// Describe asks a member for the run's description, which a joiner needs to build its model. A *RefusedError says why
// it wasn't given.
func Describe(ctx context.Context, t Transport, c Contact, runID, secret string) (run []byte, err error) {
	m := &wire.Control{Kind: wire.ControlDescribe, Version: wire.ControlVersion, Run: runID, Secret: secret}
	answer, err := request(ctx, t, c, m)
	if err != nil {
		return nil, err
	}
	if answer.Kind != wire.ControlRun {
		return nil, unexpected(answer)
	}
	return answer.Body, nil
}

// join asks to be admitted: the contact, then whomever it names. It returns the member id given and what the log
// starts from.
func join(ctx context.Context, cfg *Config) (id uint64, snapshot []byte, err error) {
	m := &wire.Control{Kind: wire.ControlJoin, Version: wire.ControlVersion, Run: cfg.RunID, Secret: cfg.Secret,
		Addrs: addrsOf(cfg.Transport), Offer: &cfg.Offer}
	to := *cfg.Contact
	for range joinTries {
		answer, err := request(ctx, cfg.Transport, to, m)
		switch {
		case err != nil && to.Peer != cfg.Contact.Peer && ctx.Err() == nil && !refused(err):
			to = *cfg.Contact // whoever led can't be reached: who does now?
		case err != nil:
			return 0, nil, err
		case answer.Kind == wire.ControlWelcome:
			return answer.To, answer.Body, nil
		case answer.Kind != wire.ControlRedirect:
			return 0, nil, unexpected(answer)
		case answer.Peer != "" && answer.Peer != to.Peer:
			to = Contact{Peer: answer.Peer, Addrs: answer.Addrs}
			continue
		}
		timer := time.NewTimer(joinPause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return 0, nil, context.Cause(ctx)
		}
	}
	return 0, nil, errors.New("no member of the run could admit this peer: is the run stuck? try again")
}

func refused(err error) bool {
	var r *RefusedError
	return errors.As(err, &r)
}

func unexpected(m *wire.Control) error {
	return fmt.Errorf("swarm: the run answered with a message of kind %d: use the same release on all peers", m.Kind)
}

// openControl opens a control stream to a peer that is in a run, or will be in a moment.
func openControl(ctx context.Context, t Transport, to Contact) (net.Conn, error) {
	again := time.NewTicker(joinPause)
	defer again.Stop()
	for tries := betweenRuns / joinPause; ; tries-- {
		conn, err := t.Open(ctx, to.Peer, to.Addrs, wire.ControlProtocol)
		if tries == 0 || !errors.Is(err, ErrNoRun) {
			return conn, err
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// request opens a stream for one question and its answer. A refusal is a *RefusedError.
func request(ctx context.Context, t Transport, to Contact, m *wire.Control) (*wire.Control, error) {
	conn, err := openControl(ctx, t, to)
	if err != nil {
		return nil, fmt.Errorf("ask about the run: %w", err)
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	answer, err := ask(conn, m)
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, fmt.Errorf("ask peer %s about the run: %w", Short(to.Peer), err)
	case answer.Kind == wire.ControlRefused:
		return nil, &RefusedError{Reason: answer.Reason}
	}
	return answer, nil
}

// ask sends a handshake and reads its answer, which may be long. The stream has no deadline afterwards.
func ask(conn net.Conn, m *wire.Control) (*wire.Control, error) {
	b, err := wire.AppendControl(nil, m)
	if err != nil {
		return nil, err
	}
	if err := conn.SetDeadline(time.Now().Add(handshakeTimeout)); err != nil {
		return nil, err
	}
	if _, err := conn.Write(b); err != nil {
		return nil, err
	}
	answer, err := wire.ReadControl(conn, wire.MaxControl)
	if err != nil {
		return nil, err
	}
	return answer, conn.SetDeadline(time.Time{})
}
