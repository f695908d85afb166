//go:build unix

package testnet

import "syscall"

// canStop says whether processes can be stopped and told to go on.
const canStop = true

// freeze stops the process until thaw.
func (p *process) freeze() error {
	p.frozen = true
	return p.cmd.Process.Signal(syscall.SIGSTOP)
}

func (p *process) thaw() error {
	p.frozen = false
	return p.cmd.Process.Signal(syscall.SIGCONT)
}

// interrupt does what Ctrl-C does.
func (p *process) interrupt() error { return p.cmd.Process.Signal(syscall.SIGINT) }
