package peer

import (
	"context"
	"errors"
	"fmt"
)

// New can't make a Host in a browser in this release: libp2p's own constructor doesn't build there, and a browser's
// transports are not here yet. Everything else of the package works.
func New(context.Context, Config) (*Host, error) {
	return nil, fmt.Errorf("peer: no host in a browser in this release: %w", errors.ErrUnsupported)
}
