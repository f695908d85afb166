//go:build !js

package peer

import (
	"fmt"
	"testing"
	"time"

	ma "github.com/multiformats/go-multiaddr"
)

// Many addresses at which something listens but never answers don't keep the one from being found that does.
func TestSilentAddresses(t *testing.T) {
	a, b := newTestHost(t, Config{}), newTestHost(t, Config{})
	serve(b, echo)
	var addrs []string
	for range 20 { // one by one, or even 8 by 8, they would take longer than the test may
		addrs = append(addrs, silent(t))
	}
	addrs = append(addrs, b.Addrs()...)
	c, err := a.Open(testContext(t), b.Self(), addrs, testProto)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()

	all := make([]ma.Multiaddr, len(addrs))
	for i, text := range addrs {
		all[i] = ma.StringCast(text)
	}
	good := a.good.rankDials(all)[0]
	if good.Addr.String() != b.Addrs()[0] || good.Delay != 0 {
		t.Errorf("next time %s is dialled first, after %s, not %s", good.Addr, good.Delay, b.Addrs()[0])
	}
	for _, d := range newGoodAddrs().rankDials(all) {
		if d.Delay > dialSpread+transportStep {
			t.Errorf("%s is dialled after %s only", d.Addr, d.Delay)
		}
	}
}

func TestGoodAddrsAreBounded(t *testing.T) {
	g := newGoodAddrs()
	addr := func(i int) ma.Multiaddr { return ma.StringCast(fmt.Sprintf("/ip4/10.0.%d.%d/tcp/1", i/256, i%256)) }
	for i := range 2 * maxGood {
		g.add(addr(i))
		g.add(addr(i))
	}
	good, others := g.split([]ma.Multiaddr{addr(0), addr(maxGood - 1), addr(maxGood), addr(2*maxGood - 1)})
	if len(good) != 2 || len(others) != 2 || len(g.order) != maxGood || len(g.known) != maxGood {
		t.Errorf("%v are remembered, %v not; %d and %d in all", good, others, len(g.order), len(g.known))
	}
}

// A peer with listeners on several addresses is reached at each of them, by IPv4 and by IPv6.
func TestSeveralListeners(t *testing.T) {
	b, err := New(testContext(t), Config{Listen: []string{"127.0.0.1:0", "[::1]:0"}})
	if err != nil {
		t.Skipf("needs IPv6: %v", err)
	}
	defer b.Close()
	serve(b, echo)
	if n := len(b.Addrs()); n != 8 {
		t.Errorf("%d addresses: %v", n, b.Addrs())
	}
	for _, addr := range b.Addrs() {
		a := newTestHost(t, Config{})
		c, err := a.Open(testContext(t), b.Self(), []string{addr}, testProto)
		if err != nil {
			t.Fatal(err)
		}
		c.SetDeadline(time.Now().Add(patience))
		c.Close()
	}
}
