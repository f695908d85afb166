package shoal

import (
	"context"
	"errors"
	"fmt"
	"net"

	"shoal/peer"
	"shoal/swarm"
)

// transport is the host as swarm wants it: it says when a peer's machine answers that nobody listens there any more.
type transport struct{ *peer.Host }

func (m *member) transport() swarm.Transport { return transport{m.host} }

func (t transport) Open(ctx context.Context, id string, addrs []string, protocol string) (net.Conn, error) {
	conn, err := t.Host.Open(ctx, id, addrs, protocol)
	if errors.Is(err, peer.ErrRefused) {
		err = fmt.Errorf("%w: %w", swarm.ErrRefused, err)
	}
	return conn, err
}
