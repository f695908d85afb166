package sysinfo

import "golang.org/x/sys/unix"

func memory() int64 {
	n, err := unix.SysctlUint64("hw.memsize")
	if err != nil {
		return 0
	}
	return int64(n)
}

func peakRSS() int64 {
	var r unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &r) != nil {
		return 0
	}
	return int64(r.Maxrss) // bytes on macOS
}
