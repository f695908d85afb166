package sysinfo

import (
	"runtime"
	"testing"
	"time"
)

func TestSysinfo(t *testing.T) {
	if m := Memory(); m < 64<<20 || m > 1<<50 {
		t.Errorf("this machine has %d bytes of memory?", m)
	}
	if runtime.GOOS != "linux" {
		return
	}
	before := PeakRSS()
	block := make([]byte, 64<<20)
	for i := 0; i < len(block); i += 4096 {
		block[i] = 1
	}
	if after := PeakRSS(); after < before || after < 64<<20 || after > Memory() {
		t.Errorf("peak went from %d to %d although 64 MiB were written", before, after)
	}
	runtime.KeepAlive(block)
}

func TestCPU(t *testing.T) {
	if runtime.GOOS != "linux" && runtime.GOOS != "darwin" {
		t.Skip("the system can't be asked")
	}
	before := CPU()
	for start := time.Now(); CPU() == before; {
		if time.Since(start) > 10*time.Second {
			t.Fatal("10 s of work take no processor time")
		}
	}
}
