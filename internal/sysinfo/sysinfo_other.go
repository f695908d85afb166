//go:build !linux && !darwin && !js

package sysinfo

func memory() int64  { return 0 }
func peakRSS() int64 { return 0 }
