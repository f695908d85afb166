//go:build !linux

package sysinfo

func rss() int64 { return 0 }
