//go:build unix

package checkpoint

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestLock(t *testing.T) {
	dir := t.TempDir()
	take := func(id string) *Lock {
		t.Helper()
		l, err := TryLock(dir, id)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	first, second := take("mine"), take("mine")
	inUse := func() {
		t.Helper()
		var e *InUseError
		if _, err := TryLock(dir, "theirs"); !errors.As(err, &e) || e.Run != "mine" || e.PID != os.Getpid() || !strings.Contains(err.Error(), dir+" is in use by run mine") {
			t.Errorf("another run: %v", err)
		}
	}
	inUse()
	first.Close()
	inUse()
	second.Close()
	(*Lock)(nil).Close()
	take("theirs").Close() // nobody is left
	if err := os.WriteFile(filepath.Join(dir, lockFile), []byte("{"), 0o666); err != nil {
		t.Fatal(err)
	}
	take("mine").Close() // what a dead process has half written is no matter
	if _, err := TryLock(filepath.Join(dir, "none"), "mine"); err == nil {
		t.Error("a folder that is not there can be locked")
	}
}

// Many processes begin at the same moment: those of one run share the folder, and there is one run only.
func TestLockRace(t *testing.T) {
	dir := t.TempDir()
	type got struct {
		id  string
		l   *Lock
		err error
	}
	all := make(chan got)
	for i := range 20 {
		go func() {
			id := []string{"a", "b"}[i%2]
			l, err := TryLock(dir, id)
			all <- got{id, l, err}
		}()
	}
	have := map[string]int{}
	for range 20 {
		g := <-all
		var e *InUseError
		switch {
		case g.err == nil:
			have[g.id]++
			defer g.l.Close()
		case !errors.As(g.err, &e):
			t.Error(g.err)
		}
	}
	if len(have) != 1 || have["a"]+have["b"] != 10 {
		t.Errorf("%v have it, want all of one run", have)
	}
}

// A process that is killed lets go.
func TestLockOfTheDead(t *testing.T) {
	if dir := os.Getenv("SHOAL_TEST_LOCK"); dir != "" {
		if _, err := TryLock(dir, "dead"); err != nil {
			t.Fatal(err)
		}
		os.Stdout.WriteString("locked\n")
		select {} // until it is killed
	}
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	child := exec.Command(self, "-test.run=^TestLockOfTheDead$")
	child.Env = append(os.Environ(), "SHOAL_TEST_LOCK="+dir)
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer child.Wait()
	defer child.Process.Kill()
	if line, _ := bufio.NewReader(out).ReadString('\n'); line != "locked\n" {
		t.Fatalf("it says %q", line)
	}
	var e *InUseError
	if _, err := TryLock(dir, "mine"); !errors.As(err, &e) || e.PID != child.Process.Pid {
		t.Errorf("while it lives: %v", err)
	}
	child.Process.Kill()
	child.Wait()
	l, err := TryLock(dir, "mine")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
}
