package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
)

// process is one that answers lines of JSON with lines of JSON. One goroutine at a time may use it.
type process struct {
	name string
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *json.Decoder
}

// start starts a program. It ends with ctx or close.
func start(ctx context.Context, env []string, program string, args ...string) (*process, error) {
	p := &process{name: args[0], cmd: exec.CommandContext(ctx, program, args...)}
	p.cmd.Env, p.cmd.Stderr = env, os.Stderr
	var err error
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.out = json.NewDecoder(bufio.NewReader(out))
	return p, p.cmd.Start()
}

// startSelf starts this program in a role.
func startSelf(ctx context.Context, role string, args ...string) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return start(ctx, os.Environ(), self, append([]string{role}, args...)...)
}

// close has the process end, and waits for it.
func (p *process) close() error { return errors.Join(p.in.Close(), p.cmd.Wait()) }

func (p *process) tell(v any) error {
	if err := json.NewEncoder(p.in).Encode(v); err != nil {
		return fmt.Errorf("%s: %w", p.name, err)
	}
	return nil
}

func (p *process) hear(v any) error {
	if err := p.out.Decode(v); err != nil {
		return fmt.Errorf("%s has ended: %w", p.name, err)
	}
	return nil
}
