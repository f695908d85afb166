package testnet

import (
	"os/exec"
	"syscall"
)

// apart keeps Ctrl-C on the terminal for the parent, which ends its children in order; a child does not outlive it.
func apart(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
