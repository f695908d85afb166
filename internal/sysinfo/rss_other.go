//go:build !linux && !js

package sysinfo

func rss() int64 { return 0 }
