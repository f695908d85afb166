//go:build !js

package peer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	ds "github.com/ipfs/go-datastore"
	ma "github.com/multiformats/go-multiaddr"
)

// provide makes h a member of a new run.
func provide(t *testing.T, h *Host, run string) Link {
	t.Helper()
	l := Link{Peer: h.Self(), Addrs: h.Addrs(), Run: run, Secret: NewSecret()}
	if err := h.ProvideRun(l); err != nil {
		t.Fatal(err)
	}
	return l
}

// at is a host's address as users write it, without its id.
func at(t *testing.T, h *Host) string {
	t.Helper()
	a, err := ma.NewMultiaddr(h.Addrs()[0])
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSuffix(brief(a), "/tcp")
}

func find(t *testing.T, h *Host, l Link, via ...string) Link {
	t.Helper()
	found, err := h.FindRun(testContext(t), l.Run, l.Secret, via)
	if err != nil {
		t.Fatal(err)
	}
	if found.Run != l.Run || found.Secret != l.Secret || found.Check() != nil || len(found.Addrs) == 0 {
		t.Errorf("found %+v", found)
	}
	return found
}

// A chain: each host is given just the address of the one before, which is no member, and finds the run's only member.
func TestFindRunThroughOthers(t *testing.T) {
	member := newTestHost(t, Config{})
	l := provide(t, member, "run-1")
	via := member
	for i := range 4 {
		h := newTestHost(t, Config{})
		found := find(t, h, l, at(t, via))
		if found.Peer != member.Self() {
			t.Errorf("host %d found peer %s", i, found.Peer)
		}
		serve(member, echo)
		c, err := h.Open(testContext(t), found.Peer, found.Addrs, testProto)
		if err != nil {
			t.Fatal(err)
		}
		c.Close()
		via = h
	}
}

// All start at once and have the address of a neighbour, in a circle, of which one is a member.
func TestFindRunAllAtOnce(t *testing.T) {
	const n = 8
	var hosts [n]*Host
	for i := range hosts {
		hosts[i] = newTestHost(t, Config{})
	}
	l := Link{Peer: hosts[0].Self(), Addrs: hosts[0].Addrs(), Run: "all", Secret: NewSecret()}
	var wait sync.WaitGroup
	for i, h := range hosts {
		via := []string{at(t, hosts[(i+1)%n])}
		wait.Go(func() {
			if i == 0 {
				if err := errors.Join(h.ProvideRun(l), h.JoinDHT(testContext(t), via)); err != nil {
					t.Error(err)
				}
				return
			}
			found, err := h.FindRun(testContext(t), l.Run, l.Secret, via)
			if err != nil || found.Peer != l.Peer {
				t.Errorf("host %d: %+v, %v", i, found, err)
			}
		})
	}
	wait.Wait()
}

// A member's record outlives the node through which it was put there.
func TestRecordsAreSpread(t *testing.T) {
	var hosts [4]*Host
	for i := range hosts {
		hosts[i] = newTestHost(t, Config{})
		if i > 0 {
			if err := hosts[i].JoinDHT(testContext(t), []string{at(t, hosts[i-1])}); err != nil {
				t.Fatal(err)
			}
		}
	}
	l := provide(t, hosts[0], "spread")
	key := runKey(l.Run)
	id, err := runCID(l.Run)
	if err != nil {
		t.Fatal(err)
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.After(patience); ; {
		known, err := hosts[3].disc.node.ProviderStore().GetProviders(testContext(t), id.Hash())
		if err != nil {
			t.Fatal(err)
		}
		if len(known) == 1 && known[0].ID == hosts[0].host.ID() {
			break
		}
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("the record of key %x never came to the last host", key[:4])
		}
	}
	hosts[1].Close()
	hosts[2].Close()
	if found := find(t, newTestHost(t, Config{}), l, at(t, hosts[3])); found.Peer != hosts[0].Self() {
		t.Errorf("found %s", found.Peer)
	}
}

// Two runs whose nodes know each other stay apart, and a run that nobody knows is not found.
func TestRunsDontMix(t *testing.T) {
	a, b := newTestHost(t, Config{}), newTestHost(t, Config{})
	la, lb := provide(t, a, "run-a"), provide(t, b, "run-b")
	if err := a.JoinDHT(testContext(t), []string{at(t, b)}); err != nil {
		t.Fatal(err)
	}
	h := newTestHost(t, Config{})
	for _, via := range []*Host{a, b} {
		if found := find(t, h, la, at(t, via)); found.Peer != a.Self() {
			t.Errorf("run a: found %s", found.Peer)
		}
		if found := find(t, h, lb, at(t, via)); found.Peer != b.Self() {
			t.Errorf("run b: found %s", found.Peer)
		}
	}
	ctx, cancel := context.WithTimeout(testContext(t), time.Second)
	defer cancel()
	if _, err := h.FindRun(ctx, "run-c", la.Secret, []string{at(t, a)}); !errors.Is(err, ErrRunNotFound) {
		t.Errorf("run c: %v", err)
	}
	if _, err := h.FindRun(testContext(t), la.Run, lb.Secret, []string{at(t, a)}); !errors.Is(err, ErrWrongSecret) {
		t.Errorf("run a with the secret of b: %v", err)
	}
}

// A liar says that it is a member, and passes questions on to a true one. It gets no secret, and the true one is found.
func TestLiarIsNotBelieved(t *testing.T) {
	member, liar, h := newTestHost(t, Config{}), newTestHost(t, Config{}), newTestHost(t, Config{})
	l := provide(t, member, "run")
	if err := liar.JoinDHT(testContext(t), []string{at(t, member)}); err != nil {
		t.Fatal(err)
	}
	lie := l
	lie.Secret = "0123456789abcdef0123456789abcdef"
	if err := liar.ProvideRun(lie); err != nil {
		t.Fatal(err)
	}
	asked := make(chan struct{}, 100)
	liar.Handle(proofProtocol, func(_ string, c net.Conn) {
		defer c.Close()
		var q proofRequest
		if _, err := io.ReadFull(c, q[:]); err != nil {
			return
		}
		answer, err := liar.ask(liar.ctx, member.host.ID(), member.Addrs(), proofProtocol, q[:], 32)
		if err == nil && len(answer) == 32 {
			asked <- struct{}{}
		}
		c.Write(answer)
	})
	err := h.prove(testContext(t), liar.host.ID(), liar.Addrs(), l.Run, l.Secret)
	if !errors.Is(err, ErrWrongSecret) {
		t.Errorf("%v", err)
	}
	receive(t, asked)
	if found := find(t, h, l, at(t, liar)); found.Peer != member.Self() {
		t.Errorf("found %s", found.Peer)
	}
}

func TestFindRunFails(t *testing.T) {
	h := newTestHost(t, Config{})
	plain := newTestHost(t, Config{}) // speaks libp2p, is no node of the DHT
	var wait sync.WaitGroup           // it looks until its time is over
	for _, tc := range []struct {
		name string
		via  []string
		want string
	}{
		{"nowhere", nil, "want 1 to"},
		{"no address", []string{"x"}, "want host:port"},
		{"no port", []string{"192.0.2.7:0"}, "needs a host and a port"},
		{"itself", []string{at(t, h)}, "own address"},
		{"itself by id", []string{h.Addrs()[0] + "/p2p/" + h.Self()}, "own address"},
		{"nobody there", []string{"127.0.0.1:1"}, "connection refused"},
		{"no node", []string{at(t, plain)}, "no node of Shoal's DHT"},
		{"another id", []string{plain.Addrs()[0] + "/p2p/" + newTestHost(t, Config{}).Self()}, "is there instead"},
	} {
		wait.Go(func() {
			for within := time.Second; ; within *= 2 { // a busy machine takes longer to answer
				ctx, cancel := context.WithTimeout(testContext(t), within)
				_, err := h.FindRun(ctx, "run", NewSecret(), tc.via)
				cancel()
				if err != nil && strings.Contains(err.Error(), tc.want) && !strings.Contains(err.Error(), "\n") {
					return
				}
				if within > 10*time.Second {
					t.Errorf("%s: %v, want %s", tc.name, err, tc.want)
					return
				}
			}
		})
	}
	wait.Wait()
	if n := len(h.host.Peerstore().PeersWithAddrs()); n > 3 {
		t.Errorf("%d peers are remembered", n)
	}
}

// Garbage instead of a question costs the asker its stream, and nothing else.
func TestProofOfGarbage(t *testing.T) {
	member, h := newTestHost(t, Config{}), newTestHost(t, Config{})
	provide(t, member, "run")
	for _, q := range [][]byte{nil, make([]byte, 63), make([]byte, 64), make([]byte, 1<<16)} {
		answer, err := h.ask(testContext(t), member.host.ID(), member.Addrs(), proofProtocol, q, 32)
		if len(answer) != 0 {
			t.Errorf("%d bytes: answer %x, %v", len(q), answer, err)
		}
	}
}

func TestCloseEndsFindRun(t *testing.T) {
	h := newTestHost(t, Config{})
	other := newTestHost(t, Config{})
	provide(t, other, "other")
	done := make(chan error, 1)
	go func() {
		_, err := h.FindRun(context.Background(), "run", "secret", []string{at(t, other)})
		done <- err
	}()
	for !h.Connected(other.Self()) { // no longer than FindRun takes
		select {
		case err := <-done:
			t.Fatal(err)
		default:
		}
	}
	h.Close()
	if err := receive(t, done); err == nil {
		t.Error("found a run that is not there")
	}
	if err := h.ProvideRun(Link{Run: "run"}); err == nil {
		t.Error("a closed host provides")
	}
}

func TestInvitation(t *testing.T) {
	l := Link{Run: NewSecret(), Secret: NewSecret()}
	run, secret, err := ParseInvitation(" " + strings.ToUpper(l.Invitation()) + "\n")
	if err != nil || run != l.Run || secret != l.Secret {
		t.Errorf("%s, %s, %v", run, secret, err)
	}
	for _, bad := range []string{"", "run", "run.", ".secret", "ru n.secret", "shoal:abc.def", strings.Repeat("x", 200) + ".y",
		"0000.0000", l.Run + "." + l.Secret[1:], l.Run + "0." + l.Secret, "x" + l.Run[1:] + "." + l.Secret, l.Invitation() + "." + l.Secret} {
		if _, _, err := ParseInvitation(bad); !errors.Is(err, ErrBadLink) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// A host name that nobody has is no reason to look for long.
func TestUnknownHost(t *testing.T) {
	h := newTestHost(t, Config{})
	ctx, cancel := context.WithTimeout(testContext(t), 2*time.Second)
	defer cancel()
	_, err := h.FindRun(ctx, NewSecret(), NewSecret(), []string{"no-such-host.invalid:4001"})
	if !errors.Is(err, ErrUnknownHost) && !errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), "host no-such-host.invalid") {
		t.Errorf("found with %v", err)
	}
}

func TestRecordStoreForgetsTheOldest(t *testing.T) {
	ctx, r := context.Background(), newRecordStore(3)
	key := func(i int) ds.Key { return ds.NewKey(fmt.Sprint("/providers/", i)) }
	for i := range 5 {
		if err := r.Put(ctx, key(i), []byte{1}); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(r.Put(ctx, key(3), []byte{2}), r.Delete(ctx, key(2)), r.Put(ctx, key(5), nil), r.Delete(ctx, key(99))); err != nil {
		t.Fatal(err)
	}
	for i := range 6 {
		if has, err := r.Has(ctx, key(i)); err != nil || has != (i >= 3) {
			t.Errorf("key %d: %v, %v", i, has, err)
		}
	}
	if v, err := r.Get(ctx, key(3)); err != nil || v[0] != 2 {
		t.Errorf("%v, %v", v, err)
	}
}

// A record has its member's addresses kept for long after the last connection; Forget does not wait.
func TestForget(t *testing.T) {
	member, other := newTestHost(t, Config{}), newTestHost(t, Config{})
	l := provide(t, member, "run-1")
	find(t, other, l, at(t, member))
	id := member.host.ID()
	store := other.host.Peerstore()
	store.AddAddrs(id, member.host.Addrs(), provideValid)
	member.Close()
	other.Drop(member.Self())
	addrs := store.Addrs(id)
	good, _ := other.good.split(addrs)
	if len(addrs) == 0 || len(good) == 0 || len(other.ends.ports(id, nil)) == 0 {
		t.Fatal("the addresses are forgotten already")
	}
	other.Forget(member.Self())
	good, _ = other.good.split(addrs)
	if left := store.Addrs(id); len(left) > 0 || len(good) > 0 || len(other.ends.at) > 0 || len(other.ends.order) > 0 {
		t.Errorf("%v, %v and %v are kept of a peer that has gone", left, good, other.ends.order)
	}
	other.Forget("nobody")
}
