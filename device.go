//go:build !js

package shoal

import (
	"runtime"

	"shoal/internal/sysinfo"
	"shoal/kernel"
	"shoal/kernel/cpu"
)

// kind is what this program tells others that it is.
const kind = "daemon"

// newDevice opens what this machine computes with.
func newDevice(cfg *Config) (kernel.Device, error) {
	return cpu.New(cpu.Config{Threads: cfg.Cores, Path: cfg.Kernel})
}

// allCores is how many there are to compute with.
func allCores() int { return runtime.GOMAXPROCS(0) }

// allMemory is what is offered by default, in bytes.
func allMemory() int64 { return sysinfo.Memory() }

// cacheByDefault is Config.Cache where it says nothing: "" is the system's folder for caches.
const cacheByDefault = ""
