package peer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/sec"
	"github.com/libp2p/go-libp2p/p2p/net/swarm"
	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"
)

var (
	// ErrClosed is returned after Close.
	ErrClosed = errors.New("peer: host is closed")

	// ErrUnreachable is wrapped by Open when no address of the peer could be dialled.
	ErrUnreachable = errors.New("it can't be reached")

	// ErrRefused is wrapped by Open, besides ErrUnreachable, when the peer was connected before and its machine says that
	// nobody listens there any more: its process has ended. A machine that doesn't answer is no such proof.
	ErrRefused = errors.New("its program has ended")

	// ErrWrongPeer is wrapped by Open, besides ErrUnreachable, when another peer answered at one of the addresses.
	ErrWrongPeer = errors.New("another peer answers there")

	// ErrProtocol is wrapped by Open when the peer has no handler for the protocol.
	ErrProtocol = errors.New("peer doesn't speak this protocol; it may run another version of the program")

	// ErrPortInUse is wrapped by New when something else listens on an address.
	ErrPortInUse = errors.New("port is in use; choose another one to listen on, or end the program that has it")
)

const maxCauses = 4 // addresses that a dial error lists

// dialError puts libp2p's report, a tree with a line per address, on one line.
func dialError(ctx context.Context, id peer.ID, tried []ma.Multiaddr, err error) error {
	return dialErrorOf(ctx, "peer "+short(id), tried, err)
}

// dialErrorOf is dialError for somebody whose id is not known.
func dialErrorOf(ctx context.Context, who string, tried []ma.Multiaddr, err error) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return fmt.Errorf("dial %s: %w", who, context.Canceled)
	}
	wrapped := []any{ErrUnreachable}
	verbs := "%w"
	var wrong sec.ErrPeerIDMismatch
	if errors.As(err, &wrong) {
		wrapped, verbs = append(wrapped, ErrWrongPeer), "%w: %w"
	}
	if ctx.Err() != nil {
		wrapped, verbs = append(wrapped, ctx.Err()), verbs+": %w"
	}
	head := fmt.Errorf(verbs, wrapped...)

	var report *swarm.DialError
	switch {
	case errors.As(err, &report) && len(report.DialErrors) > 0:
		return fmt.Errorf("dial %s: %w (%s)", who, head, causes(report))
	case len(tried) == 0:
		return fmt.Errorf("dial %s: %w: no address is known", who, head)
	case ctx.Err() != nil:
		return fmt.Errorf("dial %s: %w (no answer from %s)", who, head, list(tried))
	}
	return fmt.Errorf("dial %s: %w (%s): %s", who, head, list(tried), cause(err))
}

// causes is "address: why; address, address: why". The other machine's loopback addresses tell nothing if there are more.
func causes(report *swarm.DialError) string {
	var order []string
	where := map[string][]ma.Multiaddr{}
	elsewhere := func(e swarm.TransportError) bool { return !manet.IsIPLoopback(e.Address) }
	all := report.DialErrors
	if slices.ContainsFunc(all, elsewhere) {
		all = slices.DeleteFunc(slices.Clone(all), func(e swarm.TransportError) bool { return !elsewhere(e) })
	}
	for _, e := range all {
		why := cause(e.Cause)
		if where[why] == nil {
			order = append(order, why)
		}
		where[why] = append(where[why], e.Address)
	}
	var parts []string
	for _, why := range order {
		parts = append(parts, list(where[why])+": "+why)
	}
	return strings.Join(parts, "; ")
}

func list(addrs []ma.Multiaddr) string {
	var names []string
	for i, a := range addrs {
		if i == maxCauses {
			names = append(names, fmt.Sprintf("%d more", len(addrs)-i))
			break
		}
		names = append(names, brief(a))
	}
	return strings.Join(names, ", ")
}

// brief is an address as people write it: "192.0.2.7:4001/tcp".
func brief(a ma.Multiaddr) string {
	if k := kindOf(a); k == kindOther || k == kindCircuit {
		return a.String()
	}
	host := a[0].Value()
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return fmt.Sprintf("%s:%s/%s", host, a[1].Value(), kindOf(a))
}

// cause says why one dial failed, in a few words.
func cause(err error) string {
	var wrong sec.ErrPeerIDMismatch
	var errno syscall.Errno
	var timeout net.Error
	switch {
	case errors.As(err, &wrong):
		return "peer " + short(wrong.Actual) + " is there instead"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded),
		errors.As(err, &timeout) && timeout.Timeout():
		return "no answer"
	case errors.Is(err, context.Canceled):
		return "given up"
	case errors.Is(err, swarm.ErrNoTransport):
		return "no such transport here"
	case errors.Is(err, swarm.ErrDialToSelf):
		return "it is this peer's own address"
	case errors.As(err, &errno):
		return errno.Error()
	}
	text := oneLine(err.Error())
	if strings.Contains(text, "INTERNAL_ERROR (local)") { // QUIC's word for an error of the system, which stands at the end
		text = text[strings.LastIndex(text, ": ")+1:]
	}
	return strings.TrimSpace(text)
}

// CheckListen says what is wrong with an entry of Config.Listen, if anything.
func CheckListen(addr string) error {
	_, err := parseListen(addr)
	return err
}

// CheckAnnounce says what is wrong with an entry of Config.Announce, if anything.
func CheckAnnounce(addr string) error {
	_, err := parseAnnounce(addr)
	return err
}

// listenError says why an address can't be listened on.
func listenError(a ma.Multiaddr, err error) error {
	if errors.Is(err, syscall.EADDRINUSE) || strings.Contains(err.Error(), "address already in use") ||
		strings.Contains(err.Error(), "Only one usage of each socket address") {
		return fmt.Errorf("peer: listen on %s: %w", brief(a), ErrPortInUse)
	}
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return fmt.Errorf("peer: listen on %s: %w", brief(a), errno)
	}
	return fmt.Errorf("peer: listen on %s: %w", brief(a), singleLine{err})
}

// singleLine is an error whose text has no line breaks.
type singleLine struct{ error }

func (e singleLine) Error() string { return oneLine(e.error.Error()) }
func (e singleLine) Unwrap() error { return e.error }

func oneLine(s string) string {
	const most = 400 // bytes
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "..."
	}
	return s
}

// short is the end of a peer id: all Ed25519 ids begin alike.
func short(id peer.ID) string {
	s := id.String()
	return "…" + s[max(0, len(s)-8):]
}
