package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"shoal"
	"shoal/kernel/wasm"
	"shoal/peer"
	"shoal/swarm"
)

// How long a volunteer that has lost a run waits before it tries again, at first and at most, and how often it does in a row.
const (
	firstPause = time.Second
	mostPause  = 15 * time.Second
	mostTries  = 40
)

// leastMemory is below what a smaller offer is of use, in bytes.
const leastMemory = 32 << 20

var (
	errPaused   = errors.New("paused by the user")
	errLeft     = errors.New("left by the user")
	errSettings = errors.New("joins again with another offer")
)

// volunteer takes part in a run as its user wants. One goroutine, serve's, has all of it.
type volunteer struct {
	post     func(message any)
	commands <-chan command
	shared   bool
	run      func(context.Context, shoal.Config) (*shoal.Report, error) // shoal.Run
	after    func(time.Duration) <-chan time.Time                       // time.After

	link   string   // of the user
	links  []string // by way of members that were there last
	cores  int
	memory int64

	stop    context.CancelCauseFunc // of the part that goes on; nil if there is none
	ended   chan outcome            // of that part
	why     error                   // what the user wants it to end for; nil: nothing
	view    *view                   // shows it
	been    bool                    // in the run, since the user wanted to join
	tries   int                     // to come back, without having been there
	retry   <-chan time.Time        // when to try again; nil: not
	visible bool
}

// outcome is how a part in a run ended.
type outcome struct {
	report *shoal.Report
	err    error
	links  []string
	been   bool
}

// serve does what is wanted. It doesn't return: whoever has started this program ends it.
func (v *volunteer) serve(first command) {
	v.visible = true
	v.obey(first)
	for {
		select {
		case c := <-v.commands:
			v.obey(c)
		case o := <-v.ended:
			v.finished(o)
		case <-v.retry:
			v.begin(reconnecting, "")
		}
	}
}

func (v *volunteer) state(state, reason string) {
	v.post(stateMessage{Type: "state", State: state, Reason: reason})
}

// obey takes a command. One that makes no sense now is ignored.
func (v *volunteer) obey(c command) {
	running := v.stop != nil
	switch c.Type {
	case "join":
		if !running && v.retry == nil {
			v.link, v.links, v.cores, v.memory, v.been, v.tries = c.Link, nil, c.Cores, c.Memory, false, 0
			v.begin(connecting, "")
		}
	case "settings":
		v.cores, v.memory = c.Cores, c.Memory
		if running {
			v.end(errSettings, connecting)
		}
	case "pause":
		if running {
			v.end(errPaused, leaving)
		} else if v.retry != nil {
			v.retry = nil
			v.state(paused, "")
		}
	case "resume":
		if !running && v.link != "" && v.retry == nil {
			v.begin(connecting, "")
		}
	case "leave":
		if running {
			v.end(errLeft, leaving)
		} else {
			v.retry = nil
			v.state(left, "")
		}
	case "visible":
		v.visible = c.Visible
		if v.view != nil {
			v.view.show(c.Visible)
		}
	}
}

// end has the part in the run end politely. What the user wants meanwhile undoes no earlier wish that ends more: other
// settings don't undo a pause, and neither of them undoes leaving.
func (v *volunteer) end(why error, state string) {
	if v.why == errLeft || v.why == errPaused && why != errLeft {
		return
	}
	v.why = why
	v.state(state, why.Error())
	v.stop(why)
}

// begin takes part in the run from now on.
func (v *volunteer) begin(state, reason string) {
	v.retry, v.why = nil, nil
	v.state(state, reason)
	ctx, stop := context.WithCancelCause(context.Background())
	v.stop, v.ended = stop, make(chan outcome, 1)
	v.view = newView(v.post, v.shared, v.visible)
	cfg := shoal.Config{Link: v.link, Cores: v.cores, Memory: v.memory}
	if n := len(v.links); n > 0 && v.tries > 0 { // each of them in turn, the user's first
		if i := v.tries % (n + 1); i > 0 {
			cfg.Link = v.links[i-1]
		}
	}
	view, ended, run := v.view, v.ended, v.run
	view.watch(&cfg)
	go func() { // ends with the part in the run, which stop ends
		r, err := run(ctx, cfg)
		view.close()
		ended <- outcome{r, err, view.links(), view.been()}
	}()
}

// finished says how a part in the run ended, and begins another one if there is to be one.
func (v *volunteer) finished(o outcome) {
	v.stop(nil)
	v.stop, v.ended, v.view = nil, nil, nil
	if o.been {
		v.been, v.tries = true, 0
	}
	if len(o.links) > 0 {
		v.links = o.links
	}
	var no *swarm.RefusedError
	var wrong *shoal.ConfigError
	switch {
	case o.report != nil:
		v.post(reportMessage{"report", o.report})
		v.state(done, "")
	case errors.Is(v.why, errPaused):
		v.state(paused, "")
	case errors.Is(v.why, errLeft):
		v.state(left, "")
	case errors.Is(v.why, errSettings):
		v.begin(connecting, "")
	case errors.As(o.err, &no):
		v.state(refused, no.Reason)
	case errors.Is(o.err, wasm.ErrMemory) && v.shrink():
		v.begin(connecting, fmt.Sprintf("this browser does not give so much memory: it offers %d MiB now", v.memory>>20))
	case errors.As(o.err, &wrong) || errors.Is(o.err, peer.ErrBadLink) || !v.been || v.tries >= mostTries:
		v.state(failed, o.err.Error())
	default:
		pause := min(mostPause, firstPause<<min(v.tries, 10))
		v.tries++
		v.retry = v.after(pause)
		v.state(reconnecting, o.err.Error())
	}
}

// shrink offers less memory than before, if that can be of use.
func (v *volunteer) shrink() bool {
	if v.memory == 0 {
		v.memory = shoal.DefaultMemory()
	}
	v.memory = v.memory * 3 / 4
	return v.memory >= leastMemory
}
