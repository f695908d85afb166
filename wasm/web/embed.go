// Package web has what a browser needs to be a peer: the page, its scripts, and, if `make wasm` has been run, the peer itself.
package web

import "embed"

// Files are the page (page/index.html), its scripts, and dist, the built peer.
//
//go:embed *.mjs page dist
var Files embed.FS
