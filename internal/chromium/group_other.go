//go:build !unix

package chromium

import "os/exec"

func apart(*exec.Cmd) {}

func interrupt(*exec.Cmd) {}

func kill(cmd *exec.Cmd) { _ = cmd.Process.Kill() }
