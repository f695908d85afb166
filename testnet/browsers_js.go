package testnet

import (
	"context"
	"errors"
	"fmt"
)

// findDist fails: a browser can't start others.
func (c *Config) findDist(context.Context, string) error {
	return fmt.Errorf("testnet: browsers: %w", errors.ErrUnsupported)
}
