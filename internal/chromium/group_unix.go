//go:build unix && !linux

package chromium

import (
	"os/exec"
	"syscall"
)

// bind makes the process the leader of a group, if it is to have one.
func bind(cmd *exec.Cmd, group bool) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: group} }
