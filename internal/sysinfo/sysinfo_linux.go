package sysinfo

import (
	"os"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

func memory() int64 {
	var s unix.Sysinfo_t
	if unix.Sysinfo(&s) != nil {
		return 0
	}
	return limited(int64(uint64(s.Totalram)*uint64(s.Unit)), "/")
}

// limited is total, or the least limit that a control group of this process sets: that of a container or a batch job. The
// file system is looked at under root.
func limited(total int64, root string) int64 {
	text, err := os.ReadFile(path.Join(root, "proc/self/cgroup"))
	if err != nil {
		return total
	}
	for _, line := range strings.Split(string(text), "\n") {
		fields := strings.SplitN(line, ":", 3) // hierarchy, controllers, path
		if len(fields) < 3 {
			continue
		}
		base, file := "sys/fs/cgroup", "memory.max"
		if fields[1] != "" {
			if !strings.Contains(","+fields[1]+",", ",memory,") {
				continue
			}
			base, file = "sys/fs/cgroup/memory", "memory.limit_in_bytes"
		}
		for dir := path.Clean("/" + fields[2]); ; dir = path.Dir(dir) {
			if n, err := readLimit(path.Join(root, base, dir, file)); err == nil && n > 0 {
				total = min(total, n)
			}
			if dir == "/" {
				break
			}
		}
	}
	return total
}

func readLimit(file string) (int64, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64) // "max" is no number: no limit
}

func peakRSS() int64 {
	var r unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &r) != nil {
		return 0
	}
	return int64(r.Maxrss) * 1024 // KiB on Linux
}
