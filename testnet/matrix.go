package testnet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"shoal"
	"shoal/internal/report"
)

// Cell is a fault of the matrix: one peer is killed or stopped for good, as it plays a role in a phase.
type Cell struct{ Kind, Role, Phase string }

func (c Cell) String() string { return fmt.Sprintf("%s %s in %s", c.Kind, c.Role, c.Phase) }

// matrixPhases are the phases of the matrix, in the order of a step.
var matrixPhases = []string{"gather", "forward", "backward", "reduce", "ready", "commit", "update", "fill", "checkpoint"}

// Cells are all of the matrix, those that can't be included.
func Cells() (all []Cell) {
	for _, kind := range []string{Kill, Stop} {
		for _, role := range []string{"owner", "backup", "leader", "joiner", "donor"} {
			for _, phase := range matrixPhases {
				all = append(all, Cell{kind, role, phase})
			}
		}
	}
	return all
}

// Impossible says why there is no such moment. Empty if there is.
func (c Cell) Impossible() string {
	if c.Role == "joiner" && c.Phase == "checkpoint" {
		return "who is still being filled owns nothing that it could save"
	}
	return ""
}

// limit is how long the others may take, without the one step that is to be committed.
func (c Cell) limit() time.Duration {
	if c.Kind == Stop {
		return 4 * time.Second
	}
	return 2 * time.Second
}

// Outcome is what came of a cell.
type Outcome struct {
	Cell
	Peer, At int           // the victim's number, and the step that it computed
	Next     time.Duration // from the signal to the next commit on a survivor
	Step     time.Duration // median time of a step of that run
	Fault    report.Fault  // the row of the run's report
	Problem  string        // what is wrong; empty if all is as promised
}

// Limit is what Next may be.
func (o *Outcome) Limit() time.Duration { return o.limit() + o.Step }

// Matrix tries cells out, several one after the other in one run, and compares each run with an undisturbed one.
type Matrix struct {
	Program string // as Config's
	Kernel  string
	Verbose io.Writer
	OnCell  func(Outcome) // called with each outcome. Nil means nobody
}

// MatrixPeers is how many peers there are, but for the moments in which one is lost or joins.
const MatrixPeers = 5

const (
	matrixMost  = 7   // processes at a time
	matrixRound = 10  // cells of one run
	matrixSteps = 120 // for each of them
	matrixPace  = 5   // peers are slower by this, so that those steps are seconds
	matrixEvery = 1   // steps from one checkpoint to the next, where there are any
)

// round is one run of the matrix.
type round struct {
	cells    []Cell // still to do
	outcomes []*Outcome
	hit      []*happening // by outcome
}

// Run tries all cells out and returns what came of them, in their order but for those that can't be. The error says that
// it could not go on, not that an outcome is bad.
func (m *Matrix) Run(ctx context.Context, cells []Cell) (done []Outcome, err error) {
	var plain, saving []Cell
	for _, c := range cells {
		switch {
		case c.Impossible() != "":
		case c.Phase == "checkpoint":
			saving = append(saving, c)
		default:
			plain = append(plain, c)
		}
	}
	run := tiny(matrixSteps * (min(matrixRound, len(cells)) + 2))
	one, err := Run(ctx, Config{RunFile: run, Peers: 1, Program: m.Program, Kernel: m.Kernel, Verbose: m.Verbose})
	if err != nil {
		return nil, fmt.Errorf("the run without faults, to compare with: %w", err)
	}
	for _, left := range [][]Cell{plain, saving} {
		for len(left) > 0 {
			got, rest, err := m.round(ctx, run, left, one.StateHash)
			if err != nil {
				return done, err
			}
			done, left = append(done, got...), rest
		}
	}
	order := func(o Outcome) int { return slices.Index(cells, o.Cell) }
	slices.SortStableFunc(done, func(a, b Outcome) int { return order(a) - order(b) })
	return done, nil
}

// round tries out as many of the cells as one run has room for, at least one, and returns the others.
func (m *Matrix) round(ctx context.Context, run *shoal.RunFile, cells []Cell, want string) (done []Outcome, left []Cell, err error) {
	now := min(matrixRound, len(cells))
	t := &round{cells: cells[:now]}
	cfg := Config{RunFile: run, Peers: MatrixPeers, Program: m.Program, Kernel: m.Kernel, Verbose: m.Verbose, pace: matrixPace}
	if cells[0].Phase == "checkpoint" {
		saving := *run
		saving.Checkpoint.Every = matrixEvery
		cfg.RunFile = &saving
		if cfg.Checkpoint, err = os.MkdirTemp("", "shoal-faults-"); err != nil {
			return nil, nil, fmt.Errorf("testnet: %w", err)
		}
		defer os.RemoveAll(cfg.Checkpoint)
	}
	if err := cfg.Validate(); err != nil {
		return nil, nil, err
	}
	r, failed := launch(ctx, cfg, t.drive)
	if ctx.Err() != nil {
		return nil, nil, context.Cause(ctx)
	}
	if r == nil && len(t.outcomes) == 0 {
		return nil, nil, fmt.Errorf("a run of the matrix: %w", failed)
	}
	again := t.judge(r, failed, want)
	for _, o := range t.outcomes {
		done = append(done, *o)
		if m.OnCell != nil {
			m.OnCell(*o)
		}
	}
	return done, slices.Concat(again, t.cells, cells[now:]), nil
}

// drive does one cell after the other, as long as the run goes on.
func (t *round) drive(ctx context.Context, n *network) error {
	if err := n.begin(ctx); err != nil {
		return err
	}
	for len(t.cells) > 0 {
		if err := n.restored(ctx, n.step+5); err != nil {
			return err
		}
		if n.over() {
			break
		}
		if err := t.cell(ctx, n); err != nil {
			return err
		}
	}
	err := n.pump(ctx, func() bool { return false })
	step := medianStep(n.peers)
	for _, o := range t.outcomes {
		o.Step = step
	}
	return err
}

// errNobody says that a cell's moment did not come.
var errNobody = errors.New("nobody came there")

// cell does the next one. Where the run is over before it has happened, it is still to be done.
func (t *round) cell(ctx context.Context, n *network) error {
	o := &Outcome{Cell: t.cells[0], Step: medianStep(n.peers)}
	h, err := t.strike(ctx, n, o.Cell)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		o.Problem = err.Error()
	case n.over() && !n.answered(h):
		return nil
	default:
		o.Next, _ = answer(h, n.peers)
	}
	t.cells, t.outcomes, t.hit = t.cells[1:], append(t.outcomes, o), append(t.hit, h)
	if err != nil && !errors.Is(err, errNobody) {
		return err
	}
	if h.victim != nil {
		o.Peer, o.At = h.victim.peer, h.step
		if h.victim.fate == stopped { // it was to be silent until the others had gone on, not to come back
			h.victim.fate = killed
			h.victim.kill()
		}
	}
	for len(n.alive()) < MatrixPeers && !n.over() {
		if err := n.joinNow(); err != nil {
			return err
		}
	}
	return nil
}

// strike hits the cell's victim. There is a joiner, a donor or a fill only while somebody joins.
func (t *round) strike(ctx context.Context, n *network, c Cell) (*happening, error) {
	f := Fault{Kind: c.Kind, Role: c.Role, Phase: c.Phase, Step: n.step + 1}
	h := n.arm(f)
	joins := c.Role == "joiner" || c.Role == "donor" || c.Phase == "fill"
	for {
		if joins {
			if err := n.joinNow(); err != nil {
				return h, err
			}
		}
		fired, err := n.pumpFor(ctx, reachWithin, func() bool { return h.fired })
		if err != nil || n.over() {
			return h, err
		}
		if fired {
			break
		}
		if !joins || n.processes() >= matrixMost {
			n.disarm(h)
			return h, fmt.Errorf("testnet: %w: %s", errNobody, n.describe())
		}
	}
	answered, err := n.pumpFor(ctx, answerWithin, func() bool { return n.answered(h) })
	if err == nil && !answered && !n.over() {
		err = fmt.Errorf("testnet: no step was committed for %v: %s", answerWithin, n.describe())
	}
	return h, err
}

// judge says what is wrong with the outcomes of a run that has ended with a report or an error. Of one that failed, the
// fault that it failed after is to blame; those before are to be tried again, since the hash is not known.
func (t *round) judge(r *shoal.Report, failed error, want string) (again []Cell) {
	if r == nil {
		last := len(t.outcomes) - 1
		if t.outcomes[last].Problem == "" {
			t.outcomes[last].Problem = fmt.Sprintf("the run failed then: %v", failed)
		}
		var bad []*Outcome
		for _, o := range t.outcomes {
			if o.Problem == "" {
				again = append(again, o.Cell)
				continue
			}
			bad = append(bad, o)
		}
		t.outcomes = bad
		return again
	}
	for i, o := range t.outcomes {
		if o.Problem != "" {
			continue
		}
		h := t.hit[i]
		row := slices.IndexFunc(r.Faults, func(f report.Fault) bool { return f.Kind == h.Kind && f.Peer == h.victim.peer })
		if row >= 0 {
			o.Fault = r.Faults[row]
		}
		o.Problem = o.problem(row >= 0, r.StateHash == want)
	}
	return nil
}

// problem compares an outcome with what is promised.
func (o *Outcome) problem(counted, equal bool) string {
	var list []error
	if !counted {
		list = append(list, errors.New("the report lacks it"))
	}
	if o.Next > o.Limit() {
		list = append(list, fmt.Errorf("the next commit took %v, promised is %v", o.Next.Round(time.Millisecond), o.Limit().Round(time.Millisecond)))
	}
	if f := &o.Fault; f.StepsLost+int(f.SamplesLost)+int(f.SamplesDoubled) != 0 {
		list = append(list, fmt.Errorf("%d steps and %d samples were lost, %d samples doubled", f.StepsLost, f.SamplesLost, f.SamplesDoubled))
	}
	if !equal {
		list = append(list, errors.New("the run's state hash is not the undisturbed one's"))
	}
	if len(list) == 0 {
		return ""
	}
	return errors.Join(list...).Error()
}
