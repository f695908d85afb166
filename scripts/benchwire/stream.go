package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"time"

	"shoal/internal/sysinfo"
	"shoal/internal/wirebench"
	"shoal/peer"
)

// server is where a server's process listens: for plain TCP, and with its host.
type server struct {
	TCP  string // host:port
	Peer string // peer id
	Host string // host:port of the host, by TCP
}

// serveStreams is the other end of streams, until its input ends. It prints where it listens.
func serveStreams(ctx context.Context, in io.Reader, out io.Writer) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer l.Close()
	s := wirebench.NewServer()
	go func() { // ends with the listener
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go s.Serve(c) // ends with the process at the other end
		}
	}()
	h, err := peer.New(ctx, peer.Config{Listen: []string{"/ip4/127.0.0.1/tcp/0"}})
	if err != nil {
		return err
	}
	defer h.Close()
	h.Handle(wirebench.Protocol, func(_ string, c net.Conn) { s.Serve(c) })
	at, err := hostPort(h.Addrs()[0])
	if err != nil {
		return err
	}
	if err := json.NewEncoder(out).Encode(server{l.Addr().String(), h.Self(), at}); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, in)
	return err
}

// open starts the other end and opens both streams to it, over a link.
func (p *pair) open(ctx context.Context, l link, slice time.Duration) (err error) {
	var ends []func() error
	p.close = func() (err error) {
		for i := len(ends) - 1; i >= 0; i-- {
			err = errors.Join(err, ends[i]())
		}
		return err
	}
	defer func() {
		if err != nil {
			p.close()
		}
	}()
	other, err := startSelf(ctx, roleServer)
	if err != nil {
		return err
	}
	ends = append(ends, other.close)
	var at server
	if err := other.hear(&at); err != nil {
		return err
	}
	for _, address := range []*string{&at.TCP, &at.Host} {
		proxy, err := l.proxy(*address)
		if err != nil {
			return err
		}
		ends = append(ends, proxy.close)
		*address = proxy.address()
	}
	tcp, err := new(net.Dialer).DialContext(ctx, "tcp", at.TCP)
	if err != nil {
		return err
	}
	ends = append(ends, tcp.Close)
	h, err := peer.New(ctx, peer.Config{Listen: []string{"/ip4/127.0.0.1/tcp/0"}})
	if err != nil {
		return err
	}
	ends = append(ends, h.Close)
	addr, err := multiaddr(at.Host)
	if err != nil {
		return err
	}
	shoal, err := h.Open(ctx, at.Peer, []string{addr}, wirebench.Protocol)
	if err != nil {
		return err
	}
	return p.prepare(wirebench.NewStream(shoal), wirebench.NewStream(tcp), slice)
}

// prepare finds out how many bytes fill a slice of plain TCP's, and has the other stream's windows grow.
func (p *pair) prepare(shoal, tcp *wirebench.Stream, slice time.Duration) (err error) {
	if p.bytes, err = wirebench.Fill(slice, tcp.Put); err != nil {
		return err
	}
	p.shoal.turn = func() (float64, error) { return put(shoal, p.bytes, &p.cpu) }
	p.tcp.turn = func() (float64, error) { return put(tcp, p.bytes, &p.tcpCPU) }
	for range 3 {
		if _, err := shoal.Put(p.bytes); err != nil {
			return err
		}
	}
	return nil
}

// put says how many seconds n bytes take, and adds what they cost to cpu: seconds for 10^9 of them.
func put(s *wirebench.Stream, n int64, cpu *[]float64) (float64, error) {
	there, err := s.CPU()
	if err != nil {
		return 0, err
	}
	here := sysinfo.CPU()
	took, err := s.Put(n)
	if err != nil {
		return 0, err
	}
	used := sysinfo.CPU() - here
	after, err := s.CPU()
	*cpu = append(*cpu, (used+after-there).Seconds()/(float64(n)/1e9))
	return took.Seconds(), err
}
