//go:build unix && !linux

package testnet

import (
	"os/exec"
	"syscall"
)

// apart keeps Ctrl-C on the terminal for the parent, which ends its children in order.
func apart(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
