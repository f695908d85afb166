//go:build linux || darwin || freebsd

package shoal

import "golang.org/x/sys/unix"

// freeBytes is the room on the disk that has the folder; ok is false where it is not known.
func freeBytes(dir string) (n int64, ok bool) {
	var s unix.Statfs_t
	if unix.Statfs(dir, &s) != nil || s.Blocks == 0 { // some network file systems don't say
		return 0, false
	}
	return int64(s.Bavail) * int64(s.Bsize), true
}
