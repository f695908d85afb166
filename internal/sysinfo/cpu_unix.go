//go:build linux || darwin

package sysinfo

import (
	"time"

	"golang.org/x/sys/unix"
)

func cpuTime() time.Duration {
	var r unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &r) != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
