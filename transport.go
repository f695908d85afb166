package shoal

import (
	"context"
	"errors"
	"fmt"
	"net"

	"shoal/peer"
	"shoal/swarm"
)

// transport is the host as swarm wants it: it says when a peer's machine answers that nobody listens there any more, and
// when a peer listens that is in no run.
type transport struct{ *peer.Host }

func (m *member) transport() swarm.Transport { return transport{m.host} }

func (t transport) Open(ctx context.Context, id string, addrs []string, protocol string) (net.Conn, error) {
	conn, err := t.Host.Open(ctx, id, addrs, protocol)
	switch {
	case errors.Is(err, peer.ErrRefused):
		err = fmt.Errorf("%w: %w", swarm.ErrRefused, err)
	case errors.Is(err, peer.ErrProtocol):
		err = noRun{err}
	}
	return conn, err
}

// noRun is a swarm.ErrNoRun in the words of the error that it wraps.
type noRun struct{ error }

func (e noRun) Unwrap() error        { return e.error }
func (e noRun) Is(target error) bool { return target == swarm.ErrNoRun }
