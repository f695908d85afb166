//go:build !unix

package chromium

import "os/exec"

func bind(*exec.Cmd, bool) {}

func interrupt(*exec.Cmd) {}

func kill(cmd *exec.Cmd, _ bool) { _ = cmd.Process.Kill() }
