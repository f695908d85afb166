package live

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Process is one that is in a run, as its file says.
type Process struct {
	PID     int       `json:"pid"`
	Host    string    `json:"host"` // a home folder may be shared by several machines
	RunID   string    `json:"run_id"`
	Name    string    `json:"name"` // of the run
	Started time.Time `json:"started"`
	Address string    `json:"address"` // on the loopback interface, host:port
	Token   string    `json:"token"`
}

const (
	maxFile  = 16 << 10 // bytes
	maxFiles = 4096     // processes that are looked at
)

func fileName(pid int) string { return strconv.Itoa(pid) + ".json" }

// hostname is this machine's; empty if it has none.
func hostname() string {
	name, err := os.Hostname()
	if err != nil {
		return ""
	}
	return name
}

// write makes the file, which nobody else may read and nobody sees half of.
func (p *Process) write(file string) error {
	if old, err := read(file); err == nil && old.Host != p.Host {
		return fmt.Errorf("%s is of a process on %.60q, which shares this folder", file, old.Host)
	}
	text, err := json.Marshal(p)
	if err != nil {
		return err
	}
	half := file + ".new"
	if err := remove(half); err != nil { // of a dead process with this id; its mode may be another
		return err
	}
	f, err := os.OpenFile(half, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(text, '\n'))
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(half, file)
	}
	if err != nil {
		os.Remove(half)
	}
	return err
}

// read is the process that a file tells of.
func read(file string) (p Process, err error) {
	f, err := os.Open(file)
	if err != nil {
		return p, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile))
	if err == nil {
		err = json.Unmarshal(text, &p)
	}
	if err == nil && fileName(p.PID) != filepath.Base(file) {
		err = fmt.Errorf("%s tells of process %d", file, p.PID)
	}
	return p, err
}

// List has the processes of this user on this machine that are in a run, the longest first. Files that dead ones have left
// go.
func List() ([]Process, error) {
	dir, err := Dir()
	if err != nil {
		return nil, err
	}
	return sweep(dir), nil
}

// sweep removes the files of dead processes of this machine and returns the others.
func sweep(dir string) (living []Process) {
	entries, _ := os.ReadDir(dir) // without a folder there is nobody
	here := hostname()
	for _, e := range entries[:min(len(entries), maxFiles)] {
		pid, err := strconv.Atoi(strings.TrimSuffix(e.Name(), ".json"))
		if err != nil || pid <= 0 || e.Name() != fileName(pid) {
			continue
		}
		file := filepath.Join(dir, e.Name())
		p, err := read(file)
		switch {
		case err == nil && p.Host != here:
		case !alive(pid) || err == nil && !listening(p.Address):
			remove(file) // it goes the next time if it doesn't now
		case err == nil:
			living = append(living, p)
		}
	}
	slices.SortFunc(living, func(a, b Process) int { return a.Started.Compare(b.Started) })
	return living
}

// listening says whether somebody listens there: a process id may be that of another process by now. A process that is
// stopped does, too.
func listening(address string) bool {
	c, err := net.DialTimeout("tcp", address, time.Second)
	if err != nil {
		return errors.Is(err, os.ErrDeadlineExceeded)
	}
	c.Close()
	return true
}
