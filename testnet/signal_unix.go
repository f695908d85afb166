//go:build unix

package testnet

import (
	"os/exec"
	"syscall"
)

// canStop says whether processes can be stopped and told to go on.
const canStop = true

// Each process leads a group, see apart. A tab's browser is in it.

func killGroup(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }

// freeze stops the process until thaw.
func (p *process) freeze() error {
	p.frozen = true
	return syscall.Kill(-p.cmd.Process.Pid, syscall.SIGSTOP)
}

func (p *process) thaw() error {
	p.frozen = false
	return syscall.Kill(-p.cmd.Process.Pid, syscall.SIGCONT)
}

// interrupt does what Ctrl-C does.
func (p *process) interrupt() error { return p.cmd.Process.Signal(syscall.SIGINT) }
