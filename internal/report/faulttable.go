package report

import (
	"fmt"
	"io"
	"strings"
)

// FaultTable writes one line per fault, for terminals; nothing if there was none. Of many, only the first and the bad ones.
func (r *Report) FaultTable(w io.Writer) error {
	const shown = 20
	var b strings.Builder
	for i, f := range r.Faults {
		if i >= shown && !f.bad() {
			continue
		}
		who := fmt.Sprint("peer ", f.Peer)
		if f.Role != "" {
			who += " as " + f.Role
		}
		at := fmt.Sprint("step ", f.Step)
		if f.Phase != "" {
			at += ", " + f.Phase
		}
		fmt.Fprintf(&b, "%-6s %-18s %-22s next commit %8s%s\n", f.Kind, who, at, millis(f.NextCommitMS), f.damage())
	}
	if more := len(r.Faults) - shown; more > 0 {
		fmt.Fprintf(&b, "%d more in report.json\n", more)
	}
	if s := r.Soak; s != nil {
		equal := "equal to"
		if !s.HashEqual {
			equal = "NOT equal to"
		}
		fmt.Fprintf(&b, "%d faults, state hash %s that of an undisturbed run; per 100 faults memory grows %s, streams %s, goroutines %s; slowest next commit %s\n",
			s.Faults, equal, percent(float64(s.RSSSlope)), percent(float64(s.StreamsSlope)), percent(float64(s.GoroutinesSlope)), millis(s.SlowestCommitMS))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// bad says whether anything was lost or doubled.
func (f *Fault) bad() bool { return f.StepsLost != 0 || f.SamplesLost != 0 || f.SamplesDoubled != 0 }

// damage says what was.
func (f *Fault) damage() string {
	if !f.bad() {
		return ", nothing lost"
	}
	return fmt.Sprintf(", LOST %d steps, %d samples, %d samples doubled", f.StepsLost, f.SamplesLost, f.SamplesDoubled)
}
