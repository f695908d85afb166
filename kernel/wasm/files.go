//go:build !js

package wasm

import "embed"

// Files are the kernels (*.wasm) and the modules in web/ that a page needs.
//
//go:embed *.wasm web/*.mjs
var Files embed.FS
