//go:build linux || darwin

package sysinfo

import (
	"time"

	"golang.org/x/sys/unix"
)

func cpuTime() time.Duration { return used(unix.RUSAGE_SELF) }

func childrenCPU() time.Duration { return used(unix.RUSAGE_CHILDREN) }

func used(who int) time.Duration {
	var r unix.Rusage
	if unix.Getrusage(who, &r) != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
