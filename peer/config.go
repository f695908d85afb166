package peer

import (
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strconv"

	ma "github.com/multiformats/go-multiaddr"
)

// Config says how a Host is made. Zero means default, in every field.
type Config struct {
	// Identity is the path of the file that holds the private key. It is made if it isn't there, and belongs to one
	// process at a time. Default "": a new key that lives as long as the Host.
	Identity string

	// Listen are the addresses to listen on: multiaddrs (/ip4/../tcp/.., /ip4/../tcp/../ws, /ip4/../udp/../quic-v1,
	// /ip4/../udp/../quic-v1/webtransport), or the short form host:port, which is all four on that port: TCP and WebSocket
	// share it, QUIC and WebTransport too. ":4001" is port 4001 on all interfaces. Port 0 takes a free one. Default: ":0".
	Listen []string

	// Announce are more addresses under which others reach this peer, such as those of a router that forwards a port:
	// multiaddrs or host:port, where host may be a name. Default: only the interfaces' own addresses.
	Announce []string

	// MaxPeers is how many other peers this one is made for; connections, streams and memory are capped accordingly.
	// Larger costs nothing until they come. Default 64, at most 4096.
	MaxPeers int

	// Version is the program's version, which other peers see as "shoal/<version>". Default "dev".
	Version string

	// Log gets what an operator may want to know. Default: nothing is logged.
	Log *slog.Logger
}

const (
	defaultMaxPeers = 64
	mostPeers       = 4096
	maxAddrText     = 512 // bytes of one address as text
)

// settings is a Config that was checked, in the types that libp2p wants.
type settings struct {
	Config
	listen   []listenAddr
	announce []ma.Multiaddr
	good     *goodAddrs // not a setting: what the host has learnt
}

// listenAddr is one address to listen on. An optional one may fail because the machine has no such network.
type listenAddr struct {
	addr     ma.Multiaddr
	optional bool
}

// validate fills in defaults. An error names the setting.
func (c Config) validate() (settings, error) {
	s := settings{Config: c, good: newGoodAddrs()}
	if s.MaxPeers == 0 {
		s.MaxPeers = defaultMaxPeers
	}
	if s.MaxPeers < 1 || s.MaxPeers > mostPeers {
		return s, fmt.Errorf("peer: MaxPeers is %d, want 1 to %d", c.MaxPeers, mostPeers)
	}
	if s.Version == "" {
		s.Version = "dev"
	}
	if s.Log == nil {
		s.Log = slog.New(slog.DiscardHandler)
	}
	listen := c.Listen
	if len(listen) == 0 {
		listen = []string{":0"}
	}
	for _, text := range listen {
		addrs, err := parseListen(text)
		if err != nil {
			return s, fmt.Errorf("peer: Listen: %w", err)
		}
		s.listen = append(s.listen, addrs...)
	}
	for _, text := range c.Announce {
		addrs, err := parseAnnounce(text)
		if err != nil {
			return s, fmt.Errorf("peer: Announce: %w", err)
		}
		s.announce = append(s.announce, addrs...)
	}
	return s, nil
}

// parseListen turns one entry of Listen into the addresses to listen on.
func parseListen(text string) ([]listenAddr, error) {
	if len(text) > 0 && text[0] == '/' {
		a, err := parseAddr(text)
		if err != nil {
			return nil, err
		}
		if k := kindOf(a); k == kindOther || k == kindCircuit || !startsWithIP(a) {
			return nil, fmt.Errorf("can't listen on %q: want /ip4/../tcp/.., /ip4/../tcp/../ws, /ip4/../udp/../quic-v1, /ip4/../udp/../quic-v1/webtransport or host:port", text)
		}
		return []listenAddr{{addr: withoutCertHashes(a)}}, nil // the certificate is a new one
	}
	host, port, err := splitHostPort(text)
	if err != nil {
		return nil, err
	}
	if host == "" {
		// A machine without IPv6 is no reason to fail when nobody asked for it by name.
		return append(listenOn("/ip4/0.0.0.0", port, false), listenOn("/ip6/::", port, true)...), nil
	}
	if host == "localhost" {
		host = "127.0.0.1"
	}
	ip, err := netip.ParseAddr(host)
	if err != nil || ip.Zone() != "" {
		return nil, fmt.Errorf("can't listen on %q: %q is not an IP address of this machine", text, host)
	}
	return listenOn(ipPart(ip), port, false), nil
}

func listenOn(ip string, port int, optional bool) []listenAddr {
	var out []listenAddr
	for _, a := range allTransports(ip, port) {
		out = append(out, listenAddr{a, optional})
	}
	return out
}

// parseAnnounce turns one entry of Announce into addresses.
func parseAnnounce(text string) ([]ma.Multiaddr, error) {
	if len(text) > 0 && text[0] == '/' {
		a, err := parseAddr(text)
		if err != nil {
			return nil, err
		}
		return []ma.Multiaddr{a}, nil
	}
	host, port, err := splitHostPort(text)
	if err != nil {
		return nil, err
	}
	if host == "" || port == 0 {
		return nil, fmt.Errorf("address %q needs a host and a port that others can dial", text)
	}
	part := "/dns/" + host
	if ip, err := netip.ParseAddr(host); err == nil {
		if ip.IsUnspecified() || ip.Zone() != "" {
			return nil, fmt.Errorf("address %q can't be dialled by others", text)
		}
		part = ipPart(ip)
	}
	if _, err := parseAddr(part); err != nil {
		return nil, err
	}
	return allTransports(part, port), nil
}

// allTransports is what host:port stands for. ip must be valid ("/ip4/192.0.2.7", "/dns/example.org").
func allTransports(ip string, port int) []ma.Multiaddr {
	return []ma.Multiaddr{
		ma.StringCast(fmt.Sprintf("%s/tcp/%d", ip, port)),
		ma.StringCast(fmt.Sprintf("%s/udp/%d/quic-v1", ip, port)),
		ma.StringCast(fmt.Sprintf("%s/tcp/%d/ws", ip, port)),
		ma.StringCast(fmt.Sprintf("%s/udp/%d/quic-v1/webtransport", ip, port)),
	}
}

func ipPart(ip netip.Addr) string {
	ip = ip.Unmap()
	if ip.Is4() {
		return "/ip4/" + ip.String()
	}
	return "/ip6/" + ip.String()
}

func splitHostPort(text string) (string, int, error) {
	if len(text) > maxAddrText {
		return "", 0, fmt.Errorf("address of %d bytes, at most %d", len(text), maxAddrText)
	}
	host, portText, err := net.SplitHostPort(text)
	if err != nil {
		return "", 0, fmt.Errorf("address %q: want host:port or a multiaddr", text)
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil {
		return "", 0, fmt.Errorf("address %q: port %q is not a number from 0 to 65535", text, portText)
	}
	return host, int(port), nil
}
