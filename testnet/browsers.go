//go:build !js

package testnet

import (
	"compress/gzip"
	"context"
	"fmt"

	"shoal"
	"shoal/internal/buildwasm"
	"shoal/internal/chromium"
	"shoal/wasm/web"
)

// findDist sees to it that there is a built peer for browsers: the one that is named, the one inside this program, or one that
// is built into the folder at.
func (c *Config) findDist(ctx context.Context, at string) error {
	if _, err := chromium.Find(); err != nil {
		return &shoal.ConfigError{Field: "browsers", Err: err}
	}
	if c.Dist != "" || web.Built() {
		return nil
	}
	if c.OnNotice != nil {
		c.OnNotice("building the browser's peer, since this program has none inside ...")
	}
	if _, _, err := buildwasm.Build(ctx, at, buildwasm.Gzip(gzip.BestSpeed)); err != nil {
		return &shoal.ConfigError{Field: "browsers", Err: fmt.Errorf("the browser's peer is not inside this program and can't be built now: %w", err)}
	}
	c.Dist = at
	return nil
}
