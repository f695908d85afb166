// Package web has what a browser needs to be a peer: the page, its scripts, and, if `make wasm` has been run, the peer itself.
package web

import (
	"embed"
	"io/fs"
)

// Files are the page (page/index.html), its scripts, and dist, the built peer.
//
//go:embed *.mjs page dist
var Files embed.FS

// Script is the file in dist that names the built peer for peer.mjs.
const Script = "build.mjs"

// Built says whether the peer is in Files.
func Built() bool {
	_, err := fs.Stat(Files, "dist/"+Script)
	return err == nil
}
