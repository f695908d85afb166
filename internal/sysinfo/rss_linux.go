package sysinfo

import (
	"os"
	"strconv"
	"strings"
)

func rss() int64     { return pages(1) }
func fileRSS() int64 { return pages(2) }

// pages is a field of what Linux says of this process's memory, in bytes: all, resident, of files, ...
func pages(field int) int64 {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(text))
	if len(fields) <= field {
		return 0
	}
	n, err := strconv.ParseInt(fields[field], 10, 64)
	if err != nil {
		return 0
	}
	return n * int64(os.Getpagesize())
}
