//go:build !unix

package testnet

import "os/exec"

// apart does nothing here: the children get Ctrl-C together with their parent, and end with their standard input.
func apart(*exec.Cmd) {}
