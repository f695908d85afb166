package sysinfo

import "golang.org/x/sys/unix"

func memory() int64 {
	var s unix.Sysinfo_t
	if unix.Sysinfo(&s) != nil {
		return 0
	}
	return int64(uint64(s.Totalram) * uint64(s.Unit))
}

func peakRSS() int64 {
	var r unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &r) != nil {
		return 0
	}
	return int64(r.Maxrss) * 1024 // KiB on Linux
}
