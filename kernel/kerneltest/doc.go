// Package kerneltest is the suite that every exact kernel.Device passes: each op, over odd shapes and special values,
// gives the bits of kernel/ref; wrong calls become errors; memory is metered.
package kerneltest

import (
	"testing"

	"shoal/kernel"
)

// Run tests the devices that open makes. The suite closes them.
func Run(t *testing.T, open func(t *testing.T) kernel.Device) {
	t.Run("ops", func(t *testing.T) { runOps(t, open) })
	t.Run("faults", func(t *testing.T) { runFaults(t, open) })
	t.Run("memory", func(t *testing.T) { runMemory(t, open) })
	t.Run("fingerprint", func(t *testing.T) { runFingerprint(t, open) })
}
