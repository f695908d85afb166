package status

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode"
	"unicode/utf8"

	"shoal/internal/report"
)

const (
	width  = 80 // columns
	margin = 10 // of the label in front of a paragraph
	gap    = 2  // between columns
)

// Sort orders members by rank; those without one come last, by id.
func Sort(members []Member) {
	slices.SortFunc(members, func(a, b Member) int {
		if a.Rank < 0 || b.Rank < 0 {
			return cmp.Or(cmp.Compare(b.Rank, a.Rank), cmp.Compare(a.ID, b.ID))
		}
		return cmp.Compare(a.Rank, b.Rank)
	})
}

// Write shows s to people, on at most 80 columns.
func (s *Status) Write(w io.Writer) error {
	var b bytes.Buffer
	paragraph(&b, "run", fmt.Sprintf("%s  %s", s.Name, cut(s.RunID, 16)))
	paragraph(&b, "here", fmt.Sprintf("peer %s, process %d", short(s.Peer), s.PID))
	paragraph(&b, "step", s.progress())
	paragraph(&b, "view", s.mesh())
	paragraph(&b, "survives", s.Survival())
	if text := s.Data(); text != "" && s.InView() > 1 {
		paragraph(&b, "data", text)
	}
	if s.Stuck != "" {
		paragraph(&b, "stuck", s.Stuck)
	}
	if r := s.Relaying; r.Peers > 0 || r.Circuits > 0 {
		paragraph(&b, "relays", fmt.Sprintf("%d circuit%s (at most %d a peer) for %d browser%s (at most %d), %s",
			r.Circuits, plural(r.Circuits), r.MostCircuits, r.Peers, plural(r.Peers), r.MostPeers, report.Bytes(r.Bytes)))
	}
	if text := s.waitsFor(); text != "" {
		paragraph(&b, "now", text)
	}
	b.WriteString("\n")
	s.table(&b)
	if len(s.Faults) > 0 {
		b.WriteString("\n")
	}
	for i := len(s.Faults) - 1; i >= 0; i-- {
		f := s.Faults[i]
		label := ""
		if i == len(s.Faults)-1 {
			label = "faults"
		}
		text := f.Reason
		if !strings.Contains(text, short(f.Peer)) {
			text = short(f.Peer) + ", " + text
		}
		paragraph(&b, label, fmt.Sprintf("%s ago: %s", ago(f.Seconds), text))
	}
	_, err := w.Write(b.Bytes())
	return err
}

func (s *Status) progress() string {
	if s.Step == 0 {
		return fmt.Sprintf("0 of %d", s.Steps)
	}
	loss := fmt.Sprintf("%.4f", float64(s.Loss))
	if v := float64(s.Loss); math.IsNaN(v) || math.IsInf(v, 0) {
		loss = "not finite"
	}
	text := fmt.Sprintf("%d of %d, loss %s", s.Step, s.Steps, loss)
	if s.SamplesPerSecond > 0 {
		text += fmt.Sprintf(", %.0f samples/s", s.SamplesPerSecond)
	}
	if s.Retries > 0 {
		text += fmt.Sprintf(", %d retr%s", s.Retries, map[bool]string{true: "y", false: "ies"}[s.Retries == 1])
	}
	return text
}

func (s *Status) mesh() string {
	n := s.InView()
	text := fmt.Sprintf("%d of %d peer%s, attempt %d", s.View, n, plural(n), s.Fence)
	if s.Leader == "" {
		text += ", no leader"
	}
	if s.Generation > 0 {
		text += fmt.Sprintf(", generation %d of the log", s.Generation)
	}
	return text
}

// waitsFor says what this peer is busy with, and for whom it waits.
func (s *Status) waitsFor() string {
	text := clean(s.Phase)
	if text != "" && s.Unit >= 0 {
		text += fmt.Sprintf(" of unit %d", s.Unit)
	}
	if len(s.Waiting) == 0 {
		return text
	}
	var names []string
	for _, id := range s.Waiting {
		names = append(names, short(id))
	}
	if text != "" {
		text += ", "
	}
	return text + "waiting for " + strings.Join(names, ", ")
}

// table is a row per member.
func (s *Status) table(b *bytes.Buffer) {
	var owned, backed int64
	for _, m := range s.Members {
		owned += m.Owned
		backed += m.BackedUp
	}
	var rows bytes.Buffer
	w := tabwriter.NewWriter(&rows, 0, 0, gap, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "rank\tpeer\trole\towns\t\tbacks up\t\tto fill\tmicrobatch\t")
	for _, m := range s.Members {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", rank(m.Rank), short(m.Peer), s.role(m),
			report.Bytes(m.Owned), share(m.Owned, owned), report.Bytes(m.BackedUp), share(m.BackedUp, backed),
			none(m.ToFill), speed(m.Micros))
	}
	w.Flush()
	for line := range strings.Lines(rows.String()) {
		b.WriteString(line[gap:]) // which is in front of the first column too
	}
}

func rank(r int) string {
	if r < 0 {
		return "-"
	}
	return fmt.Sprint(r)
}

func (s *Status) role(m Member) string {
	switch {
	case m.Peer == s.Leader && m.Voter:
		return "leader"
	case m.Voter:
		return "voter"
	case m.Kind == "browser":
		return "browser"
	}
	return "learner"
}

// share is part of all in percent.
func share(part, all int64) string {
	if all <= 0 {
		return "-"
	}
	return fmt.Sprintf("%.0f%%", 100*float64(part)/float64(all))
}

func none(n int) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprint(n)
}

// speed is a microbatch's time.
func speed(micros int64) string {
	switch {
	case micros < 0:
		return "no work"
	case micros == 0:
		return "-"
	case micros < 1_000_000:
		return fmt.Sprintf("%.3g ms", float64(micros)/1000)
	}
	return fmt.Sprintf("%.1f s", float64(micros)/1e6)
}

// ago is a time in its largest unit.
func ago(seconds float64) string {
	switch {
	case seconds < 120:
		return fmt.Sprintf("%.0f s", seconds)
	case seconds < 2*3600:
		return fmt.Sprintf("%.0f min", seconds/60)
	case seconds < 48*3600:
		return fmt.Sprintf("%.0f h", seconds/3600)
	}
	return fmt.Sprintf("%.0f days", seconds/86400)
}

// short is the end of a peer id: all Ed25519 ids begin alike.
func short(id string) string {
	id = clean(id)
	if n := utf8.RuneCountInString(id); n > 8 {
		return "…" + string([]rune(id)[n-8:])
	}
	return id
}

func cut(text string, most int) string {
	if r := []rune(clean(text)); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return clean(text)
}

// clean is text, which other peers may have made, without what could play with a terminal.
func clean(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text)
}

// paragraph is text behind a label, wrapped.
func paragraph(b *bytes.Buffer, label, text string) {
	line := fmt.Sprintf("%-*s", margin, label)
	used := 0 // words on this line
	for _, word := range strings.Fields(clean(text)) {
		word = cut(word, width-margin)
		if used > 0 && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width {
			b.WriteString(line + "\n")
			line, used = strings.Repeat(" ", margin), 0
		}
		if used > 0 {
			line += " "
		}
		line += word
		used++
	}
	b.WriteString(line + "\n")
}
