// Package deps keeps modules in go.mod until the code that needs them has landed.
package deps

import (
	_ "github.com/fxamacker/cbor/v2"
	_ "github.com/klauspost/compress/huff0"
	_ "github.com/klauspost/compress/zstd"
	_ "github.com/libp2p/go-libp2p"
	_ "github.com/mmcloughlin/avo/build"
	_ "github.com/multiformats/go-multiaddr"
	_ "github.com/spf13/cobra"
	_ "go.etcd.io/raft/v3"
	_ "go.yaml.in/yaml/v3"
	_ "golang.org/x/sys/cpu"
	_ "gonum.org/v1/gonum/mat"
	_ "gonum.org/v1/plot/vg/vgsvg"
)
