// Command buildwasm builds the browser's peer and compresses it into wasm/web/dist, from where the program takes it in when it
// is built. `make wasm` runs it, from the module's root.
package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"

	"github.com/andybalholm/brotli"

	"shoal/internal/buildwasm"
)

// mostBytes is how large the peer may be for those who open a link, compressed by brotli.
const mostBytes = 5_500_000

// Packed quickly the peer is larger: 5.71 MB where the best takes it to 4.85.
const (
	quickQuality = 6
	quickSize    = 117 // percent of the best
)

// window is the largest that browsers take, as a power of two.
const window = 24

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "buildwasm:", err)
		os.Exit(1)
	}
}

func run() error {
	out := flag.String("out", "wasm/web/dist", "`folder` for the peer")
	quick := flag.Bool("quick", false, "pack in seconds instead of a minute or two, a sixth larger: for tests")
	flag.Parse()
	quality, most := brotli.BestCompression, mostBytes
	if *quick {
		quality, most = quickQuality, mostBytes*quickSize/100
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	br := buildwasm.Packer{Ending: ".br", Pack: func(data []byte) ([]byte, error) {
		var b bytes.Buffer
		w := brotli.NewWriterOptions(&b, brotli.WriterOptions{Quality: quality, LGWin: window})
		_, err := w.Write(data)
		if err == nil {
			err = w.Close()
		}
		return b.Bytes(), err
	}}
	size, packed, err := buildwasm.Build(ctx, *out, br, buildwasm.Gzip(gzip.BestCompression))
	if err != nil {
		return err
	}
	fmt.Printf("%s: the browser's peer, %.1f MB, brotli %.2f MB, gzip %.2f MB\n", *out, mega(size), mega(packed[".br"]), mega(packed[".gz"]))
	if packed[".br"] > most {
		return fmt.Errorf("it is larger than %.1f MB with brotli: too much for somebody who opens a link", mega(most))
	}
	return nil
}

func mega(n int) float64 { return float64(n) / 1e6 }
