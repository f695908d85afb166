// Package sysinfo tells what the machine and the process have and use.
package sysinfo

import "time"

// AssumedMemory is what Memory says where the system can't be asked.
const AssumedMemory = 4 << 30

// Memory is the machine's memory in bytes.
func Memory() int64 {
	if n := memory(); n > 0 {
		return n
	}
	return AssumedMemory
}

// PeakRSS is the most memory, in bytes, that this process ever had resident; 0 where the system can't be asked.
func PeakRSS() int64 { return peakRSS() }

// RSS is how much memory, in bytes, this process has resident now; 0 where the system can't be asked.
func RSS() int64 { return rss() }

// CPU is the processor time that this process has used, all threads together; 0 where the system can't be asked.
func CPU() time.Duration { return cpuTime() }

// ChildrenCPU is the same of all processes that this one has started and that have ended.
func ChildrenCPU() time.Duration { return childrenCPU() }
