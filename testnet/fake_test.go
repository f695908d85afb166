package testnet

import (
	"context"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"shoal"
	"shoal/internal/runfile"
	"shoal/internal/sysinfo"
)

// A fake peer is a process that behaves like one of shoal as far as testnet can tell: fakes of one run share its file, and
// the file's age says which step is committed. Nothing is computed, so nothing is lost when one is killed.

// fakeEnv makes the tests' program a fake peer. Its value is what is wrong with it, or "good".
const fakeEnv = "SHOAL_TESTNET_FAKE"

// fakeStep is how long a step takes.
const fakeStep = 2 * time.Millisecond

// fakeLink stands before the number of the link's process and the path of the run file.
const fakeLink = "shoal:fake:"

type fake struct {
	events *Events
	dir    string // a file for each fake of the run, named after its process
	pauses *Pauses
	step   time.Duration
}

// fakePeer is the whole program: `up FILE ...` or `join LINK ...`.
func fakePeer(args []string, wrong string) int {
	file := args[1]
	if args[0] == "join" {
		var by string
		by, file, _ = strings.Cut(strings.TrimPrefix(file, fakeLink), ":")
		if wrong == "asks late" && gone(by, 300*time.Millisecond) {
			os.Stderr.WriteString("shoal: it can't be reached\n")
			return 1
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		os.Stderr.WriteString("shoal: no such run\n")
		return 1
	}
	run, err := runfile.Parse(text)
	if err != nil {
		panic(err)
	}
	if args[0] == "up" { // the run begins now
		if err := os.Chtimes(file, time.Now(), time.Now()); err != nil {
			panic(err)
		}
	}
	info, err := os.Stat(file)
	if err != nil {
		panic(err)
	}
	f := &fake{events: NewEvents(os.Stdout), dir: filepath.Dir(file)}
	f.pauses = NewPauses(f.events, f.standing)
	for i, a := range args {
		if a == "--pause" {
			if err := f.pauses.Add(args[i+1]); err != nil {
				panic(err)
			}
		}
	}
	me := filepath.Join(f.dir, f.id())
	if err := os.WriteFile(me, nil, 0o600); err != nil {
		panic(err)
	}
	leave := make(chan os.Signal, 1)
	signal.Notify(leave, os.Interrupt)
	go func() {
		<-leave
		os.Remove(me)
		os.Exit(130)
	}()
	go func() {
		f.pauses.Serve(os.Stdin)
		os.Exit(130)
	}()
	f.events.Self(f.id())
	f.events.Link(fakeLink + strconv.Itoa(os.Getpid()) + ":" + file)
	hash := "one hash"
	if wrong == "forks" && args[0] == "join" {
		hash = "another hash"
	}
	f.step = fakeStep
	if slices.Contains(args, "--slow") {
		f.step *= 5
	}
	step := 0
	if args[0] == "join" {
		step = int(time.Since(info.ModTime()) / f.step)
	}
	f.train(&run, info.ModTime(), step, wrong)
	f.events.Report(&shoal.Report{StateHash: hash, Steps: run.Train.Steps, RunID: f.id()})
	return 0
}

func (f *fake) id() string { return "fake-" + strconv.Itoa(os.Getpid()) }

// train commits what is due since the run began. Who joins late begins where the others are.
func (f *fake) train(run *runfile.Run, began time.Time, step int, wrong string) {
	batch, err := batches(context.Background(), run)
	if err != nil {
		panic(err)
	}
	samples := int64(0)
	f.events.Standing(f.standing())
	for step++; step <= run.Train.Steps; step++ {
		for _, phase := range []string{"gather", "forward", "backward", "ready"} {
			f.pauses.At(step, phase)
		}
		<-time.After(time.Until(began.Add(time.Duration(step) * f.step)))
		f.pauses.At(step, "commit")
		samples += batch(step)
		if wrong == "doubles" && step == run.Train.Steps/2 {
			samples += 3
		}
		f.events.Progress(shoal.Progress{Phase: shoal.Training, Step: step, Steps: run.Train.Steps, Samples: samples, Peers: 1})
		if step%10 == 0 {
			f.events.Standing(f.standing())
		}
		if wrong == "crashes" && step == run.Train.Steps/2 {
			panic("what now")
		}
		f.pauses.At(step, "update")
	}
}

// standing has all fakes whose processes are there; the first of them leads. Each step's end has a fill.
func (f *fake) standing() Standing {
	files, err := filepath.Glob(filepath.Join(f.dir, "fake-*"))
	if err != nil {
		panic(err)
	}
	s := Standing{Self: f.id(), View: 1, Wanted: 1, Redundancy: 1, Promise: 1, Owns: 9, Holds: 9,
		RSS: sysinfo.RSS(), Streams: 10, Goroutines: 20}
	for _, file := range files {
		if id := filepath.Base(file); exists(strings.TrimPrefix(id, "fake-")) {
			s.Members = append(s.Members, id)
		}
	}
	slices.Sort(s.Members)
	if len(s.Members) > 0 {
		s.Leader = s.Members[0]
	}
	return s
}

// gone says whether a process ends within some time.
func gone(pid string, within time.Duration) bool {
	tick := time.NewTicker(fakeStep)
	defer tick.Stop()
	for end := time.Now().Add(within); exists(pid); <-tick.C {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

// exists says whether there is a process that is more than a corpse.
func exists(pid string) bool {
	text, err := os.ReadFile(filepath.Join("/proc", pid, "stat"))
	return err == nil && !strings.Contains(string(text), ") Z ")
}
