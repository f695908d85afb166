package cpu_test

import (
	"fmt"
	"strings"
	"testing"

	"shoal/kernel"
	"shoal/kernel/cpu"
	"shoal/kernel/cpu/gemm"
	"shoal/kernel/kerneltest"
)

func open(t testing.TB, cfg cpu.Config) *cpu.Device {
	t.Helper()
	d, err := cpu.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// Every code path on one thread, the best one on more threads than this machine may have.
func TestSuite(t *testing.T) {
	configs := []cpu.Config{{Threads: 3}}
	for _, path := range gemm.Paths() {
		configs = append(configs, cpu.Config{Path: path, Threads: 1})
	}
	for _, cfg := range configs {
		t.Run(fmt.Sprintf("%s-%d", cfg.Path, cfg.Threads), func(t *testing.T) {
			kerneltest.Run(t, func(t *testing.T) kernel.Device { return open(t, cfg) })
		})
	}
}

func TestBadConfig(t *testing.T) {
	for _, cfg := range []cpu.Config{{Threads: -1}, {Threads: 1 << 20}, {Path: "avx9"}} {
		if d, err := cpu.New(cfg); err == nil || !strings.HasPrefix(err.Error(), "cpu: ") {
			t.Errorf("New(%+v) = %v, %v", cfg, d, err)
		}
	}
}
