//go:build !linux && !js

package sysinfo

func rss() int64     { return 0 }
func fileRSS() int64 { return 0 }
