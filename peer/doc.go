// Package peer is Shoal's network: a libp2p host with an identity, and the link by which others join. It is the only
// package that imports go-libp2p.
//
//	h, err := peer.New(ctx, peer.Config{Listen: []string{":4001"}})
//	defer h.Close()
//	h.Handle("/shoal/x/1", func(from string, c net.Conn) { defer c.Close(); ... })
//	c, err := h.Open(ctx, link.Peer, link.Addrs, "/shoal/x/1")
//
// Peers are named by their libp2p peer id in text form ("12D3KooW..."), addresses are multiaddrs in text form
// ("/ip4/192.0.2.7/tcp/4001"). A Host may be used from any goroutine.
//
// What a Host does: TCP with TLS 1.3 (Noise for those who have no TLS), QUIC, WebTransport and WebSocket, TCP dialled first;
// one connection per pair of peers, any number of streams on it up to a cap. What it doesn't do: NAT port mapping.
//
// In a browser (GOOS=js), in a dedicated Worker, a Host has WebTransport and WebSocket, dials daemons, and is dialled through
// them: each daemon is a relay for browsers. See [Note: circuits] and, for what the files *_js.go have in common, [Note: calls
// from JavaScript]. It works in Node, too, with WebSocket alone.
//
// A run is found by its Link, which has everything. Without one: by name on the local network (AdvertiseLAN, FindLAN;
// lan.go), or by its id and secret through any peer of any run (ProvideRun, FindRun; dht.go). See [Note: who gets the
// secret]. A Host is a node of the DHT from the first call of these on.
//
// Bounds, all of them on purpose (limits.go, mux.go, records.go, relay_other.go): connections, streams per peer, circuits,
// records of the DHT, and memory that other peers can make this one hold.
package peer
