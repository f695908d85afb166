//go:build !linux

package slow

import "time"

// computed is the time since the program began, where a thread's own time isn't told.
func computed() time.Duration { return sinceStart() }
