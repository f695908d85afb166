package peer

import (
	"context"
	"errors"
	"fmt"
)

// discovery has nothing in a browser: there is neither a DHT node nor mDNS there.
type discovery struct{}

func silenceDHT() {}

var errNoDiscovery = fmt.Errorf("peer: a browser finds runs by their link only: %w", errors.ErrUnsupported)

// JoinDHT is for daemons.
func (h *Host) JoinDHT(context.Context, []string) error { return errNoDiscovery }

// ProvideRun is for daemons.
func (h *Host) ProvideRun(Link) error { return errNoDiscovery }

// FindRun is for daemons.
func (h *Host) FindRun(context.Context, string, string, []string) (Link, error) {
	return Link{}, errNoDiscovery
}

// AdvertiseLAN is for daemons.
func (h *Host) AdvertiseLAN(string, Link) error { return errNoDiscovery }

// FindLAN is for daemons.
func (h *Host) FindLAN(context.Context, string, func([]string)) (Link, error) {
	return Link{}, errNoDiscovery
}
