package main

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"shoal"
)

// The least time between two progress lines: in a pipe, and on a terminal, where eyes set the limit.
const (
	pipePause     = 5 * time.Second
	terminalPause = 50 * time.Millisecond
)

// display shows how a run goes: on a terminal one line that is redrawn in place, in a pipe now and then a line of its
// own. Its methods may be called from any goroutine.
type display struct {
	w     io.Writer
	width func() int // of the terminal, 0 in a pipe
	now   func() time.Time

	mu       sync.Mutex
	held     func()    // shows the peers that came before the link was shown, nil otherwise
	notices  []string  // not yet shown
	linkDue  bool      // a link will be shown, and before anything else
	drawn    int       // columns of the live line that the cursor is on, 0 if none is
	waiting  func()    // redraws the line that shows a growing waiting time, nil if nobody waits
	since    time.Time // when the waiting began
	lastLine time.Time // when the last progress line was shown
	rate     rate

	stop chan struct{}
	done sync.WaitGroup
}

func newDisplay(w io.Writer) *display {
	d := &display{w: w, width: func() int { return terminal(w) }, now: time.Now, stop: make(chan struct{})}
	d.done.Go(d.tick)
	return d
}

// Close ends the live line. It may be called twice.
func (d *display) Close() {
	d.mu.Lock()
	select {
	case <-d.stop:
	default:
		close(d.stop)
	}
	d.waiting = nil
	d.endLive()
	d.showNotices()
	d.mu.Unlock()
	d.done.Wait()
}

// tick keeps the waiting time on a terminal up to date.
func (d *display) tick() {
	t := time.NewTicker(time.Second)
	defer t.Stop()
	for {
		select {
		case <-d.stop:
			return
		case <-t.C:
			d.mu.Lock()
			if d.waiting != nil && d.width() > 0 {
				d.waiting()
			}
			d.mu.Unlock()
		}
	}
}

// Line prints a line that stays.
func (d *display) Line(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.endLive()
	fmt.Fprintf(d.w, format+"\n", args...)
}

// Notice shows a line that a person must see, once the link was shown, or at the end.
func (d *display) Notice(text string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.notices = append(d.notices, text)
	if !d.linkDue {
		d.showNotices()
	}
}

func (d *display) showNotices() {
	for _, text := range d.notices {
		d.endLive()
		fmt.Fprintln(d.w, oneLine(text))
	}
	d.notices = nil
}

// Link shows the link with which others join, and other ways. A display whose linkDue is set shows nothing before it.
func (d *display) Link(link string, otherWays ...string) {
	d.Line("%s", link)
	for _, w := range otherWays {
		d.Line("%s", w)
	}
	d.mu.Lock()
	held := d.held
	d.linkDue, d.held = false, nil
	d.showNotices()
	d.mu.Unlock()
	if held != nil {
		held()
	}
}

// Wait shows how many peers are there before a run begins.
func (d *display) Wait(have, want int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.linkDue {
		d.held = func() { d.Wait(have, want) }
		return
	}
	if d.since.IsZero() {
		d.since = d.now()
	}
	text := func() string {
		if have > want {
			return fmt.Sprintf("joining %d others", have-1)
		}
		if have == want {
			return fmt.Sprintf("%d of %d peers, starting", have, want)
		}
		return fmt.Sprintf("%d of %d peers, waiting %d s", have, want, int(d.now().Sub(d.since).Seconds()))
	}
	if d.width() == 0 {
		fmt.Fprintln(d.w, text())
		return
	}
	d.waiting = func() { d.draw(text()) }
	d.waiting()
}

// phases are what follows the last step, as people say it.
var phases = map[shoal.Phase]string{shoal.Evaluating: "evaluating on held-out samples", shoal.Saving: "writing the model"}

// Progress shows a step that was committed, or what else the run is busy with.
func (d *display) Progress(p shoal.Progress) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if text := phases[p.Phase]; text != "" {
		d.phase(text)
		return
	}
	d.waiting = nil
	d.rate.add(p)
	pause, show := pipePause, func(text string) { fmt.Fprintln(d.w, text) }
	if d.width() > 0 {
		pause, show = terminalPause, d.draw
	}
	if now := d.now(); p.Step >= p.Steps || now.Sub(d.lastLine) >= pause {
		d.lastLine = now
		show(progressLine(p, &d.rate))
	}
}

// phase begins a line for something that has no steps. On a terminal its time grows.
func (d *display) phase(text string) {
	d.endLive()
	if d.width() == 0 {
		fmt.Fprintln(d.w, text)
		return
	}
	begin := d.now()
	d.waiting = func() { d.draw(fmt.Sprintf("%s, %d s", text, int(d.now().Sub(begin).Seconds()))) }
	d.waiting()
}

// draw replaces the live line. A cursor that reaches the last column would make some terminals scroll.
func (d *display) draw(text string) {
	if most := d.width() - 1; utf8.RuneCountInString(text) > most {
		text = string([]rune(text)[:max(0, most)])
	}
	n := utf8.RuneCountInString(text)
	fmt.Fprint(d.w, "\r", text, strings.Repeat(" ", max(0, min(d.drawn, d.width()-1)-n)))
	d.drawn = n
}

// endLive leaves the live line where it is and goes to the next one.
func (d *display) endLive() {
	if d.drawn > 0 {
		fmt.Fprintln(d.w)
		d.drawn = 0
	}
}
