//go:build unix

package chromium

import (
	"os/exec"
	"syscall"
)

func interrupt(cmd *exec.Cmd) { _ = cmd.Process.Signal(syscall.SIGTERM) }

// kill ends the process, and its group if it has one of its own.
func kill(cmd *exec.Cmd, group bool) {
	if group {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		return
	}
	_ = cmd.Process.Kill()
}
