package shoal

import (
	"syscall/js"

	"shoal/kernel"
	"shoal/kernel/wasm"
)

const (
	kind           = "browser"
	cacheByDefault = noCache // there are no files

	// mostMemory is what a tab or a Node process offers by default, in bytes, if the machine has as much.
	mostMemory = 2 << 30

	mostWorkers = 24 // as many as kernel/wasm starts
)

// newDevice starts the compute workers. All memory that is offered is taken at once.
func newDevice(cfg *Config) (kernel.Device, error) {
	cores := cfg.Cores
	if cores == 0 {
		cores = allCores()
	}
	return wasm.New(wasm.Options{Workers: min(cores, mostWorkers), Bytes: cfg.Memory})
}

// DefaultMemory is what Config.Memory is by default, in bytes.
func DefaultMemory() int64 { return allMemory() }

// navigator is the browser's; undefined in a Node that has none.
func navigator(property string) js.Value {
	n := js.Global().Get("navigator")
	if n.IsUndefined() {
		return n
	}
	return n.Get(property)
}

// allCores is what the browser says that the machine has.
func allCores() int {
	if n := navigator("hardwareConcurrency"); n.Type() == js.TypeNumber {
		return max(1, n.Int())
	}
	return 1
}

// allMemory is what the browser says that the machine has, which it rounds, and tells at secure addresses only.
func allMemory() int64 {
	if n := navigator("deviceMemory"); n.Type() == js.TypeNumber { // GiB
		return min(mostMemory, int64(n.Float()*(1<<30)))
	}
	return mostMemory
}
