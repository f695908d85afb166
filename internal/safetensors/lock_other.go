//go:build !(linux || darwin || freebsd || netbsd || openbsd)

package safetensors

import (
	"os"
	"runtime"
)

func lock(*os.File) {}

// removeIfFree can't remove a file on Windows that a process has open. Elsewhere nothing is known of others.
func removeIfFree(path string) error {
	if runtime.GOOS == "windows" {
		os.Remove(path)
	}
	return nil
}
