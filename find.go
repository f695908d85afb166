package shoal

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"shoal/peer"
)

const (
	findPatience = 20 * time.Second // for a peer that looks for a run
	viaPatience  = 10 * time.Second // for the peers of Config.Via
)

// joins says whether this peer joins a run, rather than starting one.
func (c *Config) joins() bool { return c.Link != "" || c.RunFile == nil && c.LAN != "" }

// checkFind says what is wrong with the ways in which the run is to be found, before anybody is asked.
func (c *Config) checkFind() error {
	short := c.Link != "" && len(c.Via) > 0
	switch {
	case c.Link != "" && c.LAN != "":
		return errors.New("lan: a peer that has a link needs no name on the local network")
	case c.Link == "" && c.RunFile == nil && len(c.Via) > 0:
		return errors.New("via: say which run is looked for, by RUN-ID.SECRET")
	case short:
		_, _, err := peer.ParseInvitation(c.Link)
		return err
	case c.Link != "" && strings.Contains(c.Link, "."):
		if _, _, err := peer.ParseInvitation(c.Link); err != nil {
			return err
		}
		return fmt.Errorf("%w: the short form RUN-ID.SECRET needs the address of a peer to ask at: add --via HOST:PORT", peer.ErrBadLink)
	case c.Link != "":
		_, err := peer.ParseLink(c.Link)
		return err
	}
	return nil
}

// find is the link of the run that is to be joined.
func (m *member) find(ctx context.Context) (peer.Link, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, findPatience, peer.ErrRunNotFound)
	defer cancel()
	switch {
	case m.cfg.Link == "":
		m.notice("looking for the run %s on the local network ...", m.cfg.LAN)
		return m.host.FindLAN(ctx, m.cfg.LAN, func(names []string) {
			m.notice("nobody here has a run %s, but there is %s; still looking ...", m.cfg.LAN, strings.Join(names, ", "))
		})
	case len(m.cfg.Via) > 0:
		run, secret, err := peer.ParseInvitation(m.cfg.Link)
		if err != nil {
			return peer.Link{}, err
		}
		m.notice("looking for the run through %s ...", strings.Join(m.cfg.Via, ", "))
		return m.host.FindRun(ctx, run, secret, m.cfg.Via)
	}
	return peer.ParseLink(m.cfg.Link)
}

// notice tells the user something before the run begins.
func (m *member) notice(format string, args ...any) {
	if m.cfg.OnNotice != nil {
		m.cfg.OnNotice(fmt.Sprintf(format, args...))
	}
}

// beFound lets others find the run: through any peer of any run, for every member; on the local network if the peer
// that started it says so.
func (m *member) beFound(ctx context.Context, link peer.Link) error {
	link.Peer, link.Addrs = m.host.Self(), m.host.Addrs()
	if err := m.host.ProvideRun(link); err != nil && !errors.Is(err, errors.ErrUnsupported) { // a browser isn't found, it finds
		return err
	}
	if m.cfg.joins() {
		return nil
	}
	if len(m.cfg.Via) > 0 {
		ctx, cancel := context.WithTimeout(ctx, viaPatience)
		defer cancel()
		if err := m.host.JoinDHT(ctx, m.cfg.Via); err != nil {
			return fmt.Errorf("via: %w", err)
		}
	}
	if m.cfg.LAN != "" {
		return m.host.AdvertiseLAN(m.cfg.LAN, link)
	}
	return nil
}
