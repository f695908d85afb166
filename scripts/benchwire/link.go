package main

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"
)

// link is what lies between two ends of a stream. The zero link is this machine's loopback.
type link struct {
	delay time.Duration // one way
	rate  float64       // bytes a second each way
}

// longLink is a good line to the other side of an ocean: 100 ms there and back, 1 Gbit/s.
var longLink = link{delay: 50 * time.Millisecond, rate: 1e9 / 8}

// proxy takes connections in place of an address and carries their bytes as slowly as a link would. Not every kernel can
// delay packets; what a proxy can't show is what lost packets cost.
type proxy struct {
	link
	to       string       // host:port
	listener net.Listener // nil: there is nothing between

	tasks sync.WaitGroup
	mu    sync.Mutex
	conns []net.Conn
}

func (l link) proxy(to string) (*proxy, error) {
	p := &proxy{link: l, to: to}
	if l == (link{}) {
		return p, nil
	}
	var err error
	if p.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return nil, err
	}
	p.tasks.Go(func() {
		for {
			c, err := p.listener.Accept()
			if err != nil {
				return
			}
			p.carry(c)
		}
	})
	return p, nil
}

// address is where to dial in place of the original one.
func (p *proxy) address() string {
	if p.listener == nil {
		return p.to
	}
	return p.listener.Addr().String()
}

// close ends all connections and waits for what carries them.
func (p *proxy) close() error {
	if p.listener == nil {
		return nil
	}
	err := p.listener.Close()
	p.mu.Lock()
	for _, c := range p.conns {
		c.Close()
	}
	p.mu.Unlock()
	p.tasks.Wait()
	return err
}

// carry connects a connection with the original address.
func (p *proxy) carry(near net.Conn) {
	far, err := net.Dial("tcp", p.to)
	if err != nil {
		near.Close()
		return
	}
	p.mu.Lock()
	p.conns = append(p.conns, near, far)
	p.mu.Unlock()
	p.tasks.Go(func() { p.oneWay(near, far) })
	p.tasks.Go(func() { p.oneWay(far, near) })
}

// packet is some bytes on their way.
type packet struct {
	bytes []byte
	due   time.Time // at the other end
}

// oneWay carries bytes until either end closes, and then closes both.
func (p *proxy) oneWay(from, to net.Conn) {
	const queue = 2048 // packets: more than the line holds
	sent := make(chan packet, queue)
	p.tasks.Go(func() {
		defer close(sent)
		p.enter(from, sent)
	})
	broken := false
	for x := range sent {
		if broken { // let enter end
			continue
		}
		time.Sleep(time.Until(x.due))
		if _, err := to.Write(x.bytes); err != nil {
			broken = true
			from.Close()
		}
	}
	to.Close()
}

// slack is how far enter may be ahead of the line: the system doesn't wake sleepers to the microsecond.
const slack = 2 * time.Millisecond

// enter reads as fast as the line takes bytes.
func (p *proxy) enter(from net.Conn, sent chan<- packet) {
	free := time.Now() // when the line will have taken all there is
	for {
		b := make([]byte, 64<<10)
		n, err := from.Read(b)
		if err != nil {
			return
		}
		if now := time.Now(); free.Before(now) {
			free = now
		}
		free = free.Add(time.Duration(float64(n) / p.rate * float64(time.Second)))
		sent <- packet{b[:n], free.Add(p.delay)}
		if ahead := time.Until(free); ahead > slack {
			time.Sleep(ahead - slack/2)
		}
	}
}

// hostPort is a multiaddr of TCP as host:port.
func hostPort(addr string) (string, error) {
	parts := strings.Split(addr, "/") // "", ip4, host, tcp, port
	if len(parts) != 5 || parts[1] != "ip4" || parts[3] != "tcp" {
		return "", fmt.Errorf("%q is no address of TCP over IPv4", addr)
	}
	return net.JoinHostPort(parts[2], parts[4]), nil
}

// multiaddr is the reverse of hostPort.
func multiaddr(hostPort string) (string, error) {
	host, port, err := net.SplitHostPort(hostPort)
	if ip := net.ParseIP(host); err == nil && (ip == nil || ip.To4() == nil) {
		err = errors.New("not an IPv4 address: " + host)
	}
	return fmt.Sprintf("/ip4/%s/tcp/%s", host, port), err
}
