package slow

import (
	"time"

	"golang.org/x/sys/unix"
)

// computed is how long this thread has run on a core.
func computed() time.Duration {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t) != nil {
		return sinceStart()
	}
	return time.Duration(t.Nano())
}
