//go:build !unix

package testnet

import "errors"

// canStop says whether processes can be stopped and told to go on.
const canStop = false

var errNoSignals = errors.New("this system has no signals for that")

func (p *process) freeze() error    { return errNoSignals }
func (p *process) thaw() error      { return errNoSignals }
func (p *process) interrupt() error { return errNoSignals }
