package testnet

import (
	"bufio"
	"fmt"
	"io"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// self is the role that every peer plays.
const self = "self"

// pausePoint is where a child waits for its parent: ROLE@step:N[:PHASE].
type pausePoint struct {
	role  string // self, or one of Roles
	step  int    // from 1: this one or a later one
	phase string // empty: any
}

func (p pausePoint) String() string {
	text := fmt.Sprintf("%s@step:%d", p.role, p.step)
	if p.phase != "" {
		text += ":" + p.phase
	}
	return text
}

func parsePause(text string) (p pausePoint, err error) {
	role, at, _ := strings.Cut(text, "@step:")
	step, phase, _ := strings.Cut(at, ":")
	p = pausePoint{role: role, phase: phase}
	if p.step, err = strconv.Atoi(step); err != nil || p.step < 1 || role != self && !slices.Contains(Roles, role) ||
		phase != "" && !slices.Contains(Phases, phase) {
		return p, fmt.Errorf("%.100q is no point, write it as in leader@step:40:ready", text)
	}
	return p, nil
}

// Pauses is the child's side of faults: at points that the parent names, the goroutine that computes waits for the parent,
// which kills or stops the process there, or lets it go on. On the child's standard input, "pause POINT" names another
// point, "clear" forgets them all, and "go" ends the wait; "measure" has it give back what memory it can and tell its standing
// as of then.
type Pauses struct {
	events   *Events
	standing func() Standing

	mu     sync.Mutex
	points []pausePoint
	roles  Standing      // as of the attempt's points before its outcome was known
	known  bool          // roles is of this attempt
	resume chan struct{} // not nil while At waits
	over   bool          // the parent is gone, or wants the child to end
}

// NewPauses tells of points reached by e. standing says what this peer is at the moment.
func NewPauses(e *Events, standing func() Standing) *Pauses {
	return &Pauses{events: e, standing: standing}
}

// Add names a point, ROLE@step:N[:PHASE].
func (p *Pauses) Add(text string) error {
	point, err := parsePause(text)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.points = append(p.points, point)
	return nil
}

// Serve takes the parent's words until there are no more, and then lets everything go on.
func (p *Pauses) Serve(in io.Reader) {
	for s := bufio.NewScanner(in); s.Scan(); {
		word, rest, _ := strings.Cut(s.Text(), " ")
		switch word {
		case "go":
			p.release(false)
		case "clear":
			p.mu.Lock()
			p.points = nil
			p.mu.Unlock()
		case "measure":
			debug.FreeOSMemory() // what was kept for reuse becomes garbage
			debug.FreeOSMemory()
			now := p.standing()
			now.RSS -= freeHeap()
			p.events.Standing(now)
		case "pause":
			if err := p.Add(rest); err != nil {
				p.events.Notice(err.Error())
			}
		}
	}
	p.release(true)
}

// freeHeap is how many bytes of the heap are resident though nothing is in them: each processor keeps some pages at hand.
func freeHeap() int64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/free:bytes"}}
	metrics.Read(sample)
	return int64(sample[0].Value.Uint64())
}

func (p *Pauses) release(over bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over = p.over || over
	if p.resume != nil {
		close(p.resume)
		p.resume = nil
	}
}

// At is called at every point of every step (from 1). It returns at once unless the point is one to wait at.
func (p *Pauses) At(step int, phase string) {
	due := func(q pausePoint) bool { return step >= q.step }
	p.mu.Lock()
	if p.over || !slices.ContainsFunc(p.points, due) {
		p.mu.Unlock()
		return
	}
	p.mu.Unlock()
	now := p.attempt(phase)
	p.mu.Lock()
	i := slices.IndexFunc(p.points, func(q pausePoint) bool {
		return step >= q.step && (q.phase == "" || q.phase == phase) && now.plays(q.role)
	})
	if i < 0 || p.over {
		p.mu.Unlock()
		return
	}
	point := p.points[i]
	p.points = slices.Delete(p.points, i, i+1)
	resume := make(chan struct{})
	p.resume = resume
	p.mu.Unlock()
	p.events.at(point, step, phase)
	<-resume
}

// attempt is what this peer is in the present attempt. A commit makes a joiner a holder, and what is done because of
// that commit is still done as a joiner: so roles are looked at before a step's outcome is known.
func (p *Pauses) attempt(phase string) Standing {
	late := slices.Contains(afterCommit, phase)
	p.mu.Lock()
	if late && p.known {
		defer p.mu.Unlock()
		return p.roles
	}
	p.mu.Unlock()
	now := p.standing()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.roles, p.known = now, !late
	return now
}
