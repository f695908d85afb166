//go:build !unix

package testnet

import (
	"errors"
	"os/exec"
)

// canStop says whether processes can be stopped and told to go on.
const canStop = false

var errNoSignals = errors.New("this system has no signals for that")

func killGroup(cmd *exec.Cmd) { _ = cmd.Process.Kill() }

func (p *process) freeze() error    { return errNoSignals }
func (p *process) thaw() error      { return errNoSignals }
func (p *process) interrupt() error { return errNoSignals }
