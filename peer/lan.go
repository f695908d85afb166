//go:build !js

package peer

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/zeroconf/v2"
	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"
)

// On a local network a run is found by its name, with multicast DNS (RFC 6762, 6763). What is called out holds the name,
// the peer and its addresses, not the secret; for that the joiner asks the peer (lanProtocol), which gives the link to
// whoever is on the same network. Shoal brings its own records instead of go-libp2p's, with which everybody who looks
// also calls out.

// ErrAmbiguous is wrapped by FindLAN when several runs have the name.
var ErrAmbiguous = errors.New("several runs have this name: choose one by its link")

const (
	lanProtocol = "/shoal/lan/1"
	lanService  = "_shoal._udp"
	lanDomain   = "local"
	lanPort     = 4001 // records must have one; the addresses have the true ones
	lanTTL      = 120  // seconds
	lanRound    = time.Second
	lanPatience = 3 * time.Second // before other names are told
	maxLANAddrs = 8               // so that records fit into a packet
	maxLANText  = 255             // bytes of one text record
	maxLANPeers = 64              // that are listened to in a round
)

// AdvertiseLAN has FindLAN find the link by name, on all networks that this machine is on, until the Host is closed.
// Whoever is on one of them may have the link, secret included: that is what it is for. Once per Host.
func (h *Host) AdvertiseLAN(name string, l Link) error {
	if err := CheckLANName(name); err != nil {
		return fmt.Errorf("peer: %w", err)
	}
	if err := l.Check(); err != nil {
		return fmt.Errorf("peer: advertise: %w", err)
	}
	h.disc.mu.Lock()
	defer h.disc.mu.Unlock()
	if h.disc.lan {
		return errors.New("peer: advertised already")
	}
	addrs, err := h.host.Network().InterfaceListenAddresses()
	if err != nil {
		return fmt.Errorf("peer: advertise: %w", err)
	}
	ips, records := lanRecords(name, l.Peer, dialable(addrs))
	instance := rand.Text()
	server, err := zeroconf.RegisterProxy(instance, lanService, lanDomain, lanPort, instance, ips, records, nil, zeroconf.TTL(lanTTL))
	if err != nil {
		return fmt.Errorf("peer: advertise on the local network: %w", err)
	}
	if !h.beforeClose(server.Shutdown) {
		server.Shutdown()
		return ErrClosed
	}
	h.disc.lan = true
	h.Handle(lanProtocol, func(_ string, c net.Conn) {
		defer c.Close()
		if err := answerLAN(c, name, l.String()); err != nil {
			h.log.Warn("link was not given", "to", c.RemoteAddr(), "err", err)
		}
	})
	return nil
}

// lanRecords are the text records of a peer, and the addresses that the others must have.
func lanRecords(name, id string, addrs []ma.Multiaddr) (ips, records []string) {
	records = []string{"name=" + name, "peer=" + id}
	for _, a := range addrs {
		ip, err := manet.ToIP(a)
		text := "addr=" + a.String()
		if err != nil || kindOf(a) > kindQUIC || len(text) > maxLANText {
			continue
		}
		if s := ip.String(); !slices.Contains(ips, s) {
			ips = append(ips, s)
		}
		records = append(records, text)
		if len(records) == 2+maxLANAddrs {
			break
		}
	}
	return ips, records
}

// parseLANRecords is lanRecords' inverse. ok is false for what is not of this kind.
func parseLANRecords(records []string) (name string, id peer.ID, addrs []ma.Multiaddr, ok bool) {
	for _, r := range records[:min(len(records), 4*maxLANAddrs)] {
		key, value, _ := strings.Cut(r, "=")
		switch key {
		case "name":
			name = value
		case "peer":
			id, _ = parsePeer(value) // empty if it is none
		case "addr":
			if a, err := parseAddr(value); err == nil && startsWithIP(a) && len(addrs) < maxLANAddrs {
				addrs = append(addrs, a)
			}
		}
	}
	return name, id, addrs, CheckLANName(name) == nil && id != "" && len(addrs) > 0
}

// answerLAN gives the link to who asks for it by name from the same network.
func answerLAN(c net.Conn, name, link string) error {
	if err := c.SetDeadline(time.Now().Add(proofTimeout)); err != nil {
		return err
	}
	networks, err := net.InterfaceAddrs()
	if err != nil {
		return err
	}
	if !onOneOf(networks, c.RemoteAddr().String()) {
		return errors.New("it is not on a network of this machine")
	}
	asked, err := io.ReadAll(io.LimitReader(c, maxLANName+1))
	if err != nil || string(asked) != name {
		return errors.Join(err, fmt.Errorf("it asked for the run %.80q", asked))
	}
	_, err = c.Write([]byte(link))
	return err
}

// onOneOf says whether an address (a multiaddr) is on one of the networks that interfaces are on.
func onOneOf(networks []net.Addr, addr string) bool {
	a, err := ma.NewMultiaddr(addr)
	if err != nil {
		return false
	}
	ip, err := manet.ToIP(a)
	return err == nil && slices.ContainsFunc(networks, func(n net.Addr) bool {
		prefix, ok := n.(*net.IPNet)
		return ok && prefix.Contains(ip)
	})
}

// FindLAN finds the run that was advertised by name and returns its link. It looks until ctx ends, and wraps
// ErrRunNotFound or ErrAmbiguous. If all that has answered after a while has other names, onOthers, unless nil, is told them,
// once, and the search goes on.
func (h *Host) FindLAN(ctx context.Context, name string, onOthers func(names []string)) (Link, error) {
	if err := CheckLANName(name); err != nil {
		return Link{}, fmt.Errorf("peer: %w", err)
	}
	others := map[string]bool{} // names that were seen
	why := error(nil)
	begin := time.Now()
	for h.ctx.Err() == nil && ctx.Err() == nil {
		found, err := browseLAN(ctx)
		if err != nil {
			return Link{}, fmt.Errorf("look for run %s on the local network: %w", name, err)
		}
		links := map[string]Link{} // by run
		for _, a := range h.askLAN(ctx, name, found) {
			if a.err != nil {
				why = a.err
			} else {
				links[a.link.Run] = a.link
			}
		}
		for _, l := range links {
			if len(links) == 1 {
				return l, nil
			}
			return Link{}, fmt.Errorf("look for run %s on the local network: %w", name, ErrAmbiguous)
		}
		for _, p := range found {
			if p.name != name && len(others) < maxLANPeers {
				others[p.name] = true
			}
		}
		if onOthers != nil && why == nil && len(others) > 0 && time.Since(begin) >= lanPatience {
			onOthers(slices.Sorted(maps.Keys(others)))
			onOthers = nil
		}
	}
	err := fmt.Errorf("look for run %s on the local network: %w", name, ErrRunNotFound)
	switch {
	case why != nil:
		err = fmt.Errorf("%w: %w", err, why)
	case len(others) > 0:
		err = fmt.Errorf("%w (there is %s)", err, strings.Join(slices.Sorted(maps.Keys(others)), ", "))
	}
	return Link{}, err
}

type lanPeer struct {
	name  string
	id    peer.ID
	addrs []ma.Multiaddr
}

type lanAnswer struct {
	link Link
	err  error
}

// askLAN asks all that have the name for the link, at once.
func (h *Host) askLAN(ctx context.Context, name string, found []lanPeer) (answers []lanAnswer) {
	var mu sync.Mutex
	var wait sync.WaitGroup
	for _, p := range found {
		if p.name != name || p.id == h.host.ID() {
			continue
		}
		wait.Go(func() {
			l, err := h.askLANPeer(ctx, name, p)
			mu.Lock()
			defer mu.Unlock()
			answers = append(answers, lanAnswer{l, err})
		})
	}
	wait.Wait()
	return answers
}

func (h *Host) askLANPeer(ctx context.Context, name string, p lanPeer) (Link, error) {
	text, err := h.ask(ctx, p.id, texts(p.addrs), lanProtocol, []byte(name), maxLinkText)
	if err != nil {
		return Link{}, err
	}
	l, err := ParseLink(string(text))
	if err == nil && l.Peer != p.id.String() {
		err = fmt.Errorf("%w: peer %s gave that of another peer", ErrBadLink, p.id)
	}
	return l, err
}

// browseLAN listens for a moment. IPv4 and IPv6 each by themselves: a machine may lack one.
func browseLAN(ctx context.Context) (found []lanPeer, err error) {
	ctx, cancel := context.WithTimeout(ctx, lanRound)
	defer cancel()
	var mu sync.Mutex
	seen := map[peer.ID]bool{}
	add := func(records []string) {
		name, id, addrs, ok := parseLANRecords(records)
		mu.Lock()
		defer mu.Unlock()
		if ok && !seen[id] && len(found) < maxLANPeers {
			seen[id] = true
			found = append(found, lanPeer{name, id, addrs})
		}
	}
	errs := make([]error, 2)
	var wait sync.WaitGroup
	for i, family := range []zeroconf.IPType{zeroconf.IPv4, zeroconf.IPv6} {
		wait.Go(func() { errs[i] = browse(ctx, family, add) })
	}
	wait.Wait()
	if errs[0] != nil && errs[1] != nil {
		return nil, fmt.Errorf("no multicast here: %w", errors.Join(singleLine{errs[0]}, singleLine{errs[1]}))
	}
	return found, nil
}

// browse calls add for each service until ctx ends.
func browse(ctx context.Context, family zeroconf.IPType, add func(records []string)) error {
	entries, over := make(chan *zeroconf.ServiceEntry), make(chan struct{})
	var wait sync.WaitGroup
	wait.Go(func() {
		for {
			select {
			case e, ok := <-entries: // closed by Browse unless it fails at once
				if !ok {
					return
				}
				add(e.Text)
			case <-over:
				return
			}
		}
	})
	err := zeroconf.Browse(ctx, lanService, lanDomain, entries, zeroconf.SelectIPTraffic(family))
	close(over)
	wait.Wait()
	return err
}
