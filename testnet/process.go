package testnet

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// killAfter is how long a process that was told to end may take.
const killAfter = 3 * time.Second

// maxSaid is the longest line of a child's standard error that is kept, in bytes.
const maxSaid = 4096

// process is one peer.
type process struct {
	peer  int // from 1, as users count
	cmd   *exec.Cmd
	stdin io.WriteCloser // closing it ends the process

	said   said          // what it wrote on standard error
	exited chan struct{} // closed once it is gone and all it said was read
	err    error         // how it ended; read after exited
	broken error         // what was wrong with its events; read after exited
	killed bool          // by stop or kill
	frozen bool          // by SIGSTOP
}

// start runs program with args. Each event is given to tell by one goroutine.
func start(peer int, program string, args []string, verbose io.Writer, tell func(event)) (*process, error) {
	p := &process{peer: peer, cmd: exec.Command(program, args...), exited: make(chan struct{})}
	p.said = said{peer: peer, copy: verbose}
	p.cmd.Stderr = &p.said
	apart(p.cmd)
	stdin, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("testnet: peer %d: %w", peer, err)
	}
	p.stdin = stdin
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("testnet: peer %d: %w", peer, err)
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("testnet: start peer %d: %w", peer, err)
	}
	go func() { // ends with the process: stop and exited
		p.broken = readEvents(stdout, tell)
		p.err = p.cmd.Wait()
		close(p.exited)
	}()
	return p, nil
}

func readEvents(r io.Reader, tell func(event)) error {
	d := json.NewDecoder(bufio.NewReader(r))
	for {
		var e event
		if err := d.Decode(&e); err != nil {
			io.Copy(io.Discard, r) // or the process would block on its output
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		tell(e)
	}
}

// say tells the process what to do (see Pauses). One that is gone doesn't hear it.
func (p *process) say(line string) { _, _ = io.WriteString(p.stdin, line+"\n") }

// kill ends the process as a power cut would.
func (p *process) kill() {
	p.killed = true
	killGroup(p.cmd)
}

// stop ends the process, politely at first unless it is stopped, and returns once it is gone.
func (p *process) stop() {
	p.stdin.Close()
	if p.frozen {
		p.kill()
	}
	t := time.NewTimer(killAfter)
	defer t.Stop()
	select {
	case <-p.exited:
	case <-t.C:
		p.kill()
		<-p.exited
	}
}

// failure says how a process that is gone went wrong, or nil. sudden is true if it died before it could say so itself.
func (p *process) failure() (err error, sudden bool) {
	who := fmt.Sprintf("testnet: peer %d (pid %d)", p.peer, p.cmd.Process.Pid)
	crash, last := p.said.cause()
	switch {
	case p.err == nil && p.broken == nil:
		return nil, false
	case p.err == nil:
		return fmt.Errorf("%s told something that is no event: %w", who, p.broken), true
	case crash != "":
		return fmt.Errorf("%s crashed, --verbose shows where: %s", who, crash), true
	case !p.cmd.ProcessState.Exited():
		return fmt.Errorf("%s was ended by %w", who, p.err), !p.killed
	case last == "":
		return fmt.Errorf("%s ended without a word: %w", who, p.err), false
	}
	return fmt.Errorf("%s: %s", who, strings.TrimPrefix(last, "shoal: ")), false
}

// said keeps the line of a process's standard error that tells why it failed, and copies all of it to a log.
type said struct {
	peer int
	copy io.Writer

	mu          sync.Mutex
	part        []byte // of a line that has not ended
	last, panic string
}

func (s *said) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range b {
		if c != '\n' {
			if len(s.part) < maxSaid {
				s.part = append(s.part, c)
			}
			continue
		}
		s.line(strings.TrimRight(string(s.part), "\r"))
		s.part = s.part[:0]
	}
	return len(b), nil
}

func (s *said) line(text string) {
	if s.copy != nil {
		fmt.Fprintf(s.copy, "peer %d: %s\n", s.peer, text)
	}
	if s.panic == "" && (strings.HasPrefix(text, "panic:") || strings.HasPrefix(text, "fatal error:")) {
		s.panic = text
	}
	if strings.TrimSpace(text) != "" {
		s.last = text
	}
}

// cause is the first line of a crash, if there was one, and the last line.
func (s *said) cause() (crash, last string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.part) > 0 {
		return s.panic, string(s.part)
	}
	return s.panic, s.last
}
