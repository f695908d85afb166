package torch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
)

// Process is a Python program that answers each line of JSON on its standard input with one on its standard output. One
// goroutine at a time may use it.
type Process struct {
	name string
	cmd  *exec.Cmd // nil if it is none of the system's
	in   io.WriteCloser
	out  *json.Decoder
}

// Start starts a script with so many threads. It ends with ctx or Close.
func Start(ctx context.Context, python, script string, threads int) (*Process, error) {
	cmd := exec.CommandContext(ctx, python, script)
	env, err := Environment(os.Environ(), threads)
	if err != nil {
		return nil, err
	}
	cmd.Env, cmd.Stderr = env, os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p := New(filepath.Base(script), in, out)
	p.cmd = cmd
	return p, cmd.Start()
}

// New is a Process at the other end of two pipes.
func New(name string, in io.WriteCloser, out io.Reader) *Process {
	return &Process{name: name, in: in, out: json.NewDecoder(out)}
}

// Ask sends a request and reads its answer. The answer {"error": "..."} is an error.
func (p *Process) Ask(request, answer any) error {
	if err := json.NewEncoder(p.in).Encode(request); err != nil {
		return fmt.Errorf("%s: %w", p.name, err)
	}
	var line json.RawMessage
	if err := p.out.Decode(&line); err != nil {
		return fmt.Errorf("%s has ended: %w", p.name, err)
	}
	var failed struct{ Error string }
	if err := json.Unmarshal(line, &failed); err != nil {
		return fmt.Errorf("%s: %w", p.name, err)
	}
	if failed.Error != "" {
		return fmt.Errorf("%s: %s", p.name, failed.Error)
	}
	return json.Unmarshal(line, answer)
}

// Close has the process end, and waits for it.
func (p *Process) Close() error {
	err := p.in.Close()
	if p.cmd == nil {
		return err
	}
	return errors.Join(err, p.cmd.Wait())
}
