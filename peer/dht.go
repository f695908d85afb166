//go:build !js

package peer

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/ipfs/go-cid"
	golog "github.com/ipfs/go-log/v2"
	dht "github.com/libp2p/go-libp2p-kad-dht"
	"github.com/libp2p/go-libp2p-kad-dht/records"
	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/peerstore"
	"github.com/libp2p/go-libp2p/core/sec"
	ma "github.com/multiformats/go-multiaddr"
	"github.com/multiformats/go-multihash"
)

// The DHT is Shoal's own: its protocol has another name than the public one's, there are no peers built in to start
// from, and so it has just the peers that were told of one another, of whatever runs. All it holds is who is a member of
// which run. (Kademlia: Maymounkov and Mazieres, 2002.)
const (
	provideEvery = 10 * time.Minute
	provideValid = 3 * provideEvery // how long a record outlives its member
	provideDelay = time.Second      // after a new connection, before records are put again
	viaTimeout   = 5 * time.Second  // of reaching a peer that is asked
	lookTimeout  = 10 * time.Second // of one look for members
	maxFound     = 16               // members that are asked at once
	mostVia      = 16
	refusals     = 3 // looks that find nobody but members with another secret, before that is believed
)

// discovery is what a Host has of it.
type discovery struct {
	mu   sync.Mutex
	node *dht.IpfsDHT // nil until it is needed
	runs map[[sha256.Size]byte]string
	lan  bool
}

func silenceDHT() { golog.SetAllLoggers(golog.LevelFatal) }

// dhtNode makes this host a node of the DHT, if it isn't one yet.
func (h *Host) dhtNode() (*dht.IpfsDHT, error) {
	h.disc.mu.Lock()
	defer h.disc.mu.Unlock()
	if h.disc.node != nil {
		return h.disc.node, nil
	}
	node, err := dht.New(h.host, dht.ProtocolPrefix(dhtPrefix), dht.Mode(dht.ModeServer), dht.DisableValues(),
		dht.ProviderDatastore(newRecordStore(maxRecords)),
		dht.ProviderManagerOpts(records.ProvideValidity(provideValid), records.ProviderAddrTTL(provideValid)))
	if err != nil {
		return nil, fmt.Errorf("peer: dht: %w", singleLine{err})
	}
	if !h.beforeClose(func() { node.Close() }) {
		node.Close()
		return nil, ErrClosed
	}
	h.disc.node = node
	return node, nil
}

func runCID(run string) (cid.Cid, error) {
	key := runKey(run)
	mh, err := multihash.Sum(key[:], multihash.SHA2_256, -1)
	return cid.NewCidV1(cid.Raw, mh), err
}

// ProvideRun has members be found by FindRun: this peer answers for the run as long as the Host lives. It needs no other
// node yet; those that connect later get to know.
func (h *Host) ProvideRun(l Link) error {
	node, err := h.dhtNode()
	if err != nil {
		return err
	}
	id, err := runCID(l.Run)
	if err != nil {
		return fmt.Errorf("peer: dht: %w", err)
	}
	h.disc.mu.Lock()
	if h.disc.runs == nil {
		h.disc.runs = map[[sha256.Size]byte]string{}
		h.Handle(proofProtocol, answerProof(h.host.ID(), func(key [sha256.Size]byte) (string, bool) {
			h.disc.mu.Lock()
			defer h.disc.mu.Unlock()
			s, ok := h.disc.runs[key]
			return s, ok
		}))
	}
	h.disc.runs[runKey(l.Run)] = l.Secret
	h.disc.mu.Unlock()
	if !h.begin(&h.handlers) {
		return ErrClosed
	}
	go func() {
		defer h.handlers.Done()
		h.keepProviding(node, id)
	}()
	return nil
}

// keepProviding puts the record where it belongs, and again as it gets old and as peers come.
func (h *Host) keepProviding(node *dht.IpfsDHT, id cid.Cid) {
	came := make(chan struct{}, 1)
	bundle := &network.NotifyBundle{ConnectedF: func(network.Network, network.Conn) {
		select {
		case came <- struct{}{}:
		default:
		}
	}}
	h.host.Network().Notify(bundle)
	defer h.host.Network().StopNotify(bundle)
	timer := time.NewTimer(0)
	defer timer.Stop()
	soon := false
	for {
		select {
		case <-h.ctx.Done():
			return
		case <-came:
			if !soon {
				soon = true
				timer.Reset(provideDelay)
			}
		case <-timer.C:
			soon = false
			ctx, cancel := context.WithTimeout(h.ctx, lookTimeout)
			if err := node.Provide(ctx, id, true); err != nil {
				h.log.Debug("run is not in the DHT of others", "err", err) // there are none yet, or none answers
			}
			cancel()
			timer.Reset(provideEvery)
		}
	}
}

// JoinDHT makes this host and the peers at via nodes of one DHT. An address is host:port, or a multiaddr with or
// without /p2p/ID. It returns when one of them was reached, or with the reason why none was.
func (h *Host) JoinDHT(ctx context.Context, via []string) error {
	if _, err := h.dhtNode(); err != nil {
		return err
	}
	targets, err := parseVia(via)
	if err != nil {
		return fmt.Errorf("peer: %w", err)
	}
	for {
		if err = h.reach(ctx, targets); err == nil {
			return nil
		}
		if errors.Is(err, ErrUnknownHost) {
			return err
		}
		if h.pause(ctx) != nil {
			return err
		}
	}
}

// FindRun finds a member of a run by asking the peers at via (see JoinDHT), which need not be members. It looks until
// ctx ends, and wraps ErrRunNotFound or ErrWrongSecret. The secret stays here: members prove that they know it; see
// [Note: who gets the secret].
func (h *Host) FindRun(ctx context.Context, run, secret string, via []string) (Link, error) {
	node, err := h.dhtNode()
	if err != nil {
		return Link{}, err
	}
	targets, err := parseVia(via)
	if err != nil {
		return Link{}, fmt.Errorf("peer: find run: %w", err)
	}
	var why error
	for refused := 0; ; {
		l, err := h.look(ctx, node, run, secret, targets)
		if err == nil {
			return l, nil
		}
		if ctx.Err() == nil || why == nil || errors.Is(err, ErrUnknownHost) { // a look that was cut short knows less than the one before
			why = err
		}
		if errors.Is(err, ErrWrongSecret) {
			refused++
		}
		if refused == refusals || errors.Is(err, ErrUnknownHost) || h.pause(ctx) != nil {
			return Link{}, fmt.Errorf("find run %s: %w", run, why)
		}
	}
}

// pause waits a moment.
func (h *Host) pause(ctx context.Context) error {
	timer := time.NewTimer(findPause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-h.ctx.Done():
		return ErrClosed
	}
}

// look asks once.
func (h *Host) look(ctx context.Context, node *dht.IpfsDHT, run, secret string, targets []*target) (Link, error) {
	var wait sync.WaitGroup
	defer wait.Wait()
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	defer context.AfterFunc(h.ctx, cancel)()
	if err := h.reach(ctx, targets); err != nil {
		return Link{}, fmt.Errorf("%w: %w", ErrRunNotFound, err)
	}
	id, err := runCID(run)
	if err != nil {
		return Link{}, err
	}
	type answer struct {
		id  peer.ID
		err error
	}
	answers := make(chan answer, maxFound)
	asked := 0
	for info := range node.FindProvidersAsync(ctx, id, maxFound) {
		if info.ID == h.host.ID() || asked == maxFound {
			continue
		}
		asked++
		addrs := texts(dialable(info.Addrs))
		wait.Go(func() {
			answers <- answer{info.ID, h.prove(ctx, info.ID, addrs[:min(len(addrs), maxLinkAddrs)], run, secret)}
		})
	}
	why := fmt.Errorf("%w: no node knows a member of it", ErrRunNotFound)
	if node.RoutingTable().Size() == 0 {
		why = fmt.Errorf("%w: the peer that was asked is no node of Shoal's DHT (yet)", ErrRunNotFound)
	}
	for range asked {
		a := <-answers
		if a.err == nil {
			addrs := texts(dialable(h.host.Peerstore().Addrs(a.id)))
			return Link{Peer: a.id.String(), Addrs: addrs[:min(len(addrs), maxLinkAddrs)], Run: run, Secret: secret}, nil
		}
		if !errors.Is(why, ErrWrongSecret) {
			why = a.err
		}
	}
	return Link{}, why
}

// prove asks a peer to prove that it knows the run's secret.
func (h *Host) prove(ctx context.Context, id peer.ID, addrs []string, run, secret string) error {
	var q proofRequest
	key := runKey(run)
	copy(q[:], key[:])
	rand.Read(q[sha256.Size:]) // never fails
	answer, err := h.ask(ctx, id, addrs, proofProtocol, q[:], sha256.Size)
	switch {
	case err != nil:
		return fmt.Errorf("%w: a member can't be reached: %w", ErrRunNotFound, err)
	case len(answer) == 0:
		return fmt.Errorf("%w: peer %s is no member any more", ErrRunNotFound, id)
	case !hmac.Equal(answer, proof(secret, q, h.host.ID(), id)):
		return fmt.Errorf("%w (or peer %s only claims to be a member)", ErrWrongSecret, id)
	}
	return nil
}

// target is a peer that is asked. Its id may be unknown at first.
type target struct {
	text  string
	addrs []ma.Multiaddr
	id    peer.ID
}

func parseVia(via []string) (targets []*target, err error) {
	if len(via) == 0 || len(via) > mostVia {
		return nil, fmt.Errorf("%d addresses to ask at, want 1 to %d", len(via), mostVia)
	}
	for _, text := range via {
		t := &target{text: text}
		if info, err := peer.AddrInfoFromString(text); err == nil && len(text) <= maxAddrText && len(info.Addrs) > 0 {
			t.addrs, t.id = info.Addrs, info.ID
		} else if t.addrs, err = parseAnnounce(text); err != nil {
			return nil, err
		}
		t.addrs = certified(t.addrs, nil)
		targets = append(targets, t)
	}
	return targets, nil
}

// reach connects to the targets, all at once, and returns when one of them is there.
func (h *Host) reach(ctx context.Context, targets []*target) error {
	var wait sync.WaitGroup
	defer wait.Wait()
	ctx, cancel := context.WithTimeout(ctx, viaTimeout)
	defer cancel()
	defer context.AfterFunc(h.ctx, cancel)()
	results := make(chan error, len(targets))
	for _, t := range targets {
		wait.Go(func() { results <- h.reachOne(ctx, t) })
	}
	var first error
	for range targets {
		err := <-results
		if err == nil {
			return nil
		}
		if first == nil || errors.Is(first, ErrUnknownHost) { // as long as one of them may answer yet, it is tried again
			first = err
		}
	}
	return first
}

func (h *Host) reachOne(ctx context.Context, t *target) error {
	if err := known(ctx, t.addrs); err != nil {
		return err
	}
	if t.id == "" {
		id, err := h.whoIsAt(ctx, t.addrs)
		if err != nil {
			return err
		}
		t.id = id
	}
	if t.id == h.host.ID() {
		return fmt.Errorf("%s is this peer's own address", t.text)
	}
	ctx = network.WithForceDirectDial(ctx, "shoal")
	if err := h.host.Connect(ctx, peer.AddrInfo{ID: t.id, Addrs: t.addrs}); err != nil {
		return dialError(ctx, t.id, t.addrs, err)
	}
	return nil
}

// known looks for the host name in addrs, if there is one: libp2p would dial nobody and not say why.
func known(ctx context.Context, addrs []ma.Multiaddr) error {
	if len(addrs) == 0 || len(addrs[0]) == 0 {
		return nil
	}
	first := addrs[0][0] // all have one host
	if !slices.Contains([]int{ma.P_DNS, ma.P_DNS4, ma.P_DNS6}, first.Protocol().Code) {
		return nil
	}
	_, err := net.DefaultResolver.LookupHost(ctx, first.Value())
	var dns *net.DNSError
	switch {
	case errors.As(err, &dns) && dns.IsNotFound:
		return fmt.Errorf("%w %s", ErrUnknownHost, first.Value())
	case err != nil:
		return fmt.Errorf("%w: look up host %s: %w", ErrUnreachable, first.Value(), singleLine{err})
	}
	return nil
}

// whoIsAt asks for the id of whoever answers first at addrs.
func (h *Host) whoIsAt(ctx context.Context, addrs []ma.Multiaddr) (peer.ID, error) {
	type answer struct {
		id  peer.ID
		err error
	}
	var wait sync.WaitGroup
	defer wait.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answers := make(chan answer, len(addrs))
	for _, a := range addrs {
		wait.Go(func() {
			id, err := h.whoIsAtOne(ctx, a)
			answers <- answer{id, err}
		})
	}
	var first error
	for range addrs {
		a := <-answers
		if a.err == nil {
			return a.id, nil
		}
		if first == nil {
			first = a.err
		}
	}
	return "", first
}

// whoIsAtOne asks for the id of whoever answers at an address. libp2p dials nobody without a name, but says who answered
// instead of the one that was meant; so it is told to dial a peer that doesn't exist.
func (h *Host) whoIsAtOne(ctx context.Context, a ma.Multiaddr) (peer.ID, error) {
	_, public, err := crypto.GenerateEd25519Key(rand.Reader)
	if err != nil {
		return "", err
	}
	nobody, err := peer.IDFromPublicKey(public)
	if err != nil {
		return "", err
	}
	h.host.Peerstore().AddAddr(nobody, a, peerstore.TempAddrTTL)
	defer func() {
		h.host.Peerstore().ClearAddrs(nobody)
		h.host.Peerstore().RemovePeer(nobody)
	}()
	_, err = h.host.Network().DialPeer(network.WithForceDirectDial(ctx, "shoal"), nobody)
	var wrong sec.ErrPeerIDMismatch
	switch {
	case errors.As(err, &wrong):
		return wrong.Actual, nil
	case err == nil:
		return "", errors.New("a peer answers there under a name that it can't have")
	}
	return "", dialErrorOf(ctx, "the peer to ask", []ma.Multiaddr{a}, err)
}
