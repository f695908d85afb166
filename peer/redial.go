package peer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"
)

// [Note: a refused redial]
//
// When a process ends, however it ends, its machine resets its connections and refuses new ones at its ports. A machine that
// is asleep, stopped or cut off refuses nothing: it is silent. So a peer that was connected, and whose machine now refuses a
// connection where it was, has ended; nobody has to wait for heartbeats that don't come.
//
// libp2p's own dial can't say so in time: it fails when the last address has failed, and of most machines some never
// answer. So the place of the last connection is tried beside it. Where the peer had been dialled, its port is known. Where it
// had dialled, only its machine is known, and the ports are those at which it says that it listens. In both cases all its
// ports there must refuse, since it may have come back at another one.

const (
	maxEnds        = mostPeers             // peers whose last connection is remembered
	probeTimeout   = 3 * time.Second       // Windows knows of a refusal only after 2 s
	refusalGrace   = 20 * time.Millisecond // for the other addresses of a peer after a refusal, at least,
	handshakeTrips = 4                     // and as long as a handshake takes at the same distance
)

// end is where a peer's connection came from or went to.
type end struct {
	ip   netip.Addr
	port uint16 // TCP; 0 if the peer dialled, since then it says nothing
}

// lastEnds remembers the end of each peer's newest connection over TCP.
type lastEnds struct {
	mu    sync.Mutex
	order []peer.ID // oldest first
	at    map[peer.ID]end
}

func newLastEnds() *lastEnds { return &lastEnds{at: map[peer.ID]end{}} }

// connected is for a network's notifications.
func (l *lastEnds) connected(_ network.Network, c network.Conn) {
	at, ok := tcpEnd(c.RemoteMultiaddr())
	l.mu.Lock()
	defer l.mu.Unlock()
	id := c.RemotePeer()
	if _, known := l.at[id]; !known {
		if !ok {
			return
		}
		if len(l.order) == maxEnds {
			delete(l.at, l.order[0])
			l.order = l.order[1:]
		}
		l.order = append(l.order, id)
	}
	e := end{at.Addr(), at.Port()}
	if c.Stat().Direction != network.DirOutbound {
		e.port = 0
	}
	l.at[id] = e // of QUIC it is zero: nothing refuses there
}

func (l *lastEnds) forget(id peer.ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.at, id)
	l.order = slices.DeleteFunc(l.order, func(known peer.ID) bool { return known == id })
}

// ports are the TCP ports of a peer on the machine where it was connected last. addrs are its known addresses.
func (l *lastEnds) ports(id peer.ID, addrs []ma.Multiaddr) (ports []netip.AddrPort) {
	l.mu.Lock()
	last := l.at[id]
	l.mu.Unlock()
	if !last.ip.IsValid() {
		return nil
	}
	if last.port != 0 {
		ports = append(ports, netip.AddrPortFrom(last.ip, last.port))
	}
	for _, a := range addrs {
		if at, ok := tcpEnd(a); ok && at.Addr() == last.ip && !slices.Contains(ports, at) {
			ports = append(ports, at)
		}
	}
	return ports
}

// tcpEnd is the IP address and TCP port that a begins with, as those of TCP and WebSocket do. A circuit begins with its
// relay's.
func tcpEnd(a ma.Multiaddr) (netip.AddrPort, bool) {
	if kindOf(a) == kindCircuit || !startsWithIP(a) || len(a) < 2 || a[1].Protocol().Code != ma.P_TCP {
		return netip.AddrPort{}, false
	}
	ip, err := netip.ParseAddr(a[0].Value())
	port, err2 := strconv.ParseUint(a[1].Value(), 10, 16)
	return netip.AddrPortFrom(ip.Unmap(), uint16(port)), err == nil && err2 == nil && port != 0
}

// dial is the connection to a peer, a new one if there is none. One through a relay is the last resort, see [Note: circuits].
func (h *Host) dial(ctx context.Context, id peer.ID) (network.Conn, error) {
	conn, err := h.dialDirect(ctx, id)
	if err == nil || ctx.Err() != nil || errors.Is(err, ErrRefused) {
		return conn, err
	}
	if !slices.ContainsFunc(h.host.Peerstore().Addrs(id), isCircuit) {
		return nil, err
	}
	if conn, err = h.dialCircuit(ctx, id); err != nil {
		return nil, err
	}
	return h.straighten(ctx, conn), nil
}

// dialDirect is the connection to a peer without a relay, a new one if there is none. See [Note: a refused redial].
func (h *Host) dialDirect(ctx context.Context, id peer.ID) (network.Conn, error) {
	// Direct: don't hold an earlier failure against an address. How often to try is the caller's affair.
	direct := network.WithForceDirectDial(ctx, "shoal")
	ports := h.ends.ports(id, h.host.Peerstore().Addrs(id))
	if len(ports) == 0 || h.alive(id) {
		return h.host.Network().DialPeer(direct, id)
	}
	direct, giveUp := context.WithCancel(direct)
	probing, stop := context.WithCancel(ctx)
	verdict := make(chan bool, 1)
	var probe sync.WaitGroup
	probe.Go(func() {
		begin := time.Now()
		gone := refusedByAll(probing, ports)
		verdict <- gone
		if gone {
			pause(direct, max(refusalGrace, handshakeTrips*time.Since(begin)))
			giveUp()
		}
	})
	defer probe.Wait()
	defer stop()
	defer giveUp()
	conn, err := h.host.Network().DialPeer(direct, id)
	if err != nil && <-verdict {
		return nil, refusedError(id, ports)
	}
	return conn, err
}

// alive says whether there is a connection to a peer that is not broken.
func (h *Host) alive(id peer.ID) bool {
	return slices.ContainsFunc(h.host.Network().ConnsToPeer(id), func(c network.Conn) bool { return !c.IsClosed() })
}

// refusedByAll says whether a connection to each port is refused.
func refusedByAll(ctx context.Context, ports []netip.AddrPort) bool {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	results := make(chan bool)
	for _, p := range ports {
		go func() {
			c, err := new(net.Dialer).DialContext(ctx, "tcp", p.String())
			if err == nil {
				c.Close()
			}
			results <- refused(err)
		}()
	}
	all := true
	for range ports {
		if !<-results {
			all = false
			cancel() // the others don't matter any more
		}
	}
	return all
}

// pause waits for d or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

func refusedError(id peer.ID, ports []netip.AddrPort) error {
	var where []string
	for _, p := range ports {
		where = append(where, p.String())
	}
	return fmt.Errorf("dial peer %s: %w: %w (connection refused at %s)", short(id), ErrUnreachable, ErrRefused, strings.Join(where, ", "))
}
