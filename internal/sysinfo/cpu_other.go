//go:build !linux && !darwin

package sysinfo

import "time"

func cpuTime() time.Duration { return 0 }

func childrenCPU() time.Duration { return 0 }
