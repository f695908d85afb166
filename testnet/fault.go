package testnet

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Kinds of faults.
const (
	Kill  = "kill"  // SIGKILL
	Stop  = "stop"  // SIGSTOP, and SIGCONT later
	Leave = "leave" // SIGINT, as Ctrl-C sends it: the peer goes politely
	Join  = "join"  // new processes
)

// Roles are those that a fault may name instead of a peer's number. Who plays one is known when a peer comes to the
// named point.
var Roles = []string{"leader", "owner", "backup", "joiner", "donor"}

// Phases are the points of a step at which a fault may happen.
var Phases = []string{"gather", "forward", "backward", "reduce", "ready", "commit", "update", "fill", "checkpoint", "evaluate"}

// afterCommit are the phases that come when a step's outcome is known.
var afterCommit = []string{"commit", "update", "checkpoint", "evaluate"}

// defaultStop is how long a stopped process stays so, unless the fault says.
const defaultStop = 30 * time.Second

// maxStop is the longest that a stop can be asked for, in seconds.
const maxStop = 86400

// Fault is something that is done to a peer, or a join. It happens when its victim comes to the point that it names, at
// Step or in the first later step in which somebody plays Role in Phase.
type Fault struct {
	Kind  string
	Peer  int    // the victim's number, from 1; 0 if Role says who
	Role  string // one of Roles, or empty
	Count int    // new processes, of a Join
	Step  int    // from 1; a Join comes once this step is committed
	Phase string // one of Phases; empty: the first point of the step
	// For is how long a Stop takes; 0 means that the process never goes on.
	For time.Duration
}

// ParseFault reads what follows the flag of a kind: WHO@step:N[:PHASE], of a stop with [:SECONDS], of a join COUNT@step:N.
func ParseFault(kind, text string) (Fault, error) {
	f, err := parseFault(kind, text)
	if err != nil {
		return Fault{}, fmt.Errorf("%.100q: %w", text, err)
	}
	return f, nil
}

func parseFault(kind, text string) (Fault, error) {
	form := map[string]string{Kill: "2@step:40:backward", Stop: "leader@step:40:ready:30", Leave: "2@step:40", Join: "1@step:80"}[kind]
	who, at, ok := strings.Cut(text, "@")
	fields := strings.Split(at, ":")
	if !ok || fields[0] != "step" || len(fields) < 2 {
		return Fault{}, fmt.Errorf("write it as in %s", form)
	}
	f := Fault{Kind: kind}
	if kind == Stop {
		f.For = defaultStop
	}
	var err error
	if f.Step, err = strconv.Atoi(fields[1]); err != nil || f.Step < 1 {
		return Fault{}, fmt.Errorf("%.100q is no step, they count from 1", fields[1])
	}
	if err := f.parseWho(who); err != nil {
		return Fault{}, err
	}
	rest := fields[2:]
	if len(rest) > 0 && kind == Stop && isNumber(rest[len(rest)-1]) {
		seconds, err := strconv.Atoi(rest[len(rest)-1])
		if err != nil || seconds > maxStop {
			return Fault{}, fmt.Errorf("%.100s seconds is too long, use at most %d, or 0 for ever", rest[len(rest)-1], maxStop)
		}
		f.For, rest = time.Duration(seconds)*time.Second, rest[:len(rest)-1]
	}
	if len(rest) > 0 && (kind == Kill || kind == Stop) {
		if f.Phase = rest[0]; !slices.Contains(Phases, f.Phase) {
			return Fault{}, fmt.Errorf("there is no phase %.100q, use %s", f.Phase, strings.Join(Phases, ", "))
		}
		rest = rest[1:]
	}
	if len(rest) > 0 {
		return Fault{}, fmt.Errorf("%.100q is too much, write it as in %s", strings.Join(rest, ":"), form)
	}
	return f, nil
}

// parseWho reads the number of a peer, a role, or how many join.
func (f *Fault) parseWho(who string) error {
	n, err := strconv.Atoi(who)
	switch {
	case f.Kind == Join && (err != nil || n < 1):
		return fmt.Errorf("%.100q is no number of new peers", who)
	case f.Kind == Join:
		f.Count = n
	case slices.Contains(Roles, who):
		f.Role = who
	case err != nil:
		return fmt.Errorf("%.100q is nobody, use the number of a peer or %s", who, strings.Join(Roles, ", "))
	case n < 1:
		return errors.New("peers are counted from 1")
	default:
		f.Peer = n
	}
	return nil
}

func isNumber(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// String is what ParseFault reads.
func (f Fault) String() string {
	if f.Kind == Join {
		return fmt.Sprintf("%d@step:%d", f.Count, f.Step)
	}
	text := fmt.Sprintf("%s@step:%d", f.who(), f.Step)
	if f.Phase != "" {
		text += ":" + f.Phase
	}
	if f.Kind == Stop {
		text += fmt.Sprintf(":%d", int(f.For.Seconds()))
	}
	return text
}

func (f *Fault) who() string {
	if f.Role != "" {
		return f.Role
	}
	return strconv.Itoa(f.Peer)
}

// pause is the point at which the victim waits, as a child reads it.
func (f *Fault) pause() pausePoint {
	p := pausePoint{role: f.Role, step: f.Step, phase: f.Phase}
	if f.Role == "" {
		p.role = self
	}
	return p
}

// together says whether two faults are meant to happen at the same moment.
func (f *Fault) together(g *Fault) bool {
	deadly := func(k string) bool { return k == Kill || k == Stop }
	return deadly(f.Kind) && deadly(g.Kind) && f.Step == g.Step && f.Phase == g.Phase
}

// lasting says whether the victim is lost for good.
func (f *Fault) lasting() bool {
	return f.Kind == Kill || f.Kind == Leave || f.Kind == Stop && f.For == 0
}
