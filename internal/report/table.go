package report

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A column of the table for terminals. keep says which go first when the terminal is narrow: the lowest.
type column struct {
	title string
	keep  int
	left  bool // aligned to the left
	cell  func(r *Report, p *Peer) string
}

var columns = []column{
	{"rank", 9, false, func(_ *Report, p *Peer) string { return strconv.Itoa(p.Rank) }},
	{"peer", 4, true, func(_ *Report, p *Peer) string { return shortID(clean(p.PeerID)) }},
	{"kind", 2, true, func(_ *Report, p *Peer) string { return clean(p.Kind) }},
	{"backend", 3, true, func(_ *Report, p *Peer) string { return clean(p.Backend) }},
	{"samples", 8, false, func(r *Report, p *Peer) string { return Count(p.Samples) }},
	{"share", 7, false, func(r *Report, p *Peer) string { return percent(share(p.Samples, r.samples())) }},
	{"owned", 6, false, func(_ *Report, p *Peer) string { return Count(p.ParametersOwned) }},
	{"at rest", 8, false, func(_ *Report, p *Peer) string { return Bytes(p.rest()) }},
	{"borrowed", 3, false, func(_ *Report, p *Peer) string { return Bytes(p.GatheredPeakBytes) }},
	{"RSS peak", 5, false, func(_ *Report, p *Peer) string { return Bytes(p.RSSPeakBytes) }},
	{"sent", 7, false, func(_ *Report, p *Peer) string { return Bytes(p.BytesSent) }},
	{"received", 7, false, func(_ *Report, p *Peer) string { return Bytes(p.BytesReceived) }},
	{"retries", 1, false, func(_ *Report, p *Peer) string { return strconv.Itoa(p.Retries) }},
}

// rest is what a peer holds between steps.
func (p *Peer) rest() int64 {
	return p.ParameterBytes + p.GradientBytes + p.OptimizerBytes + p.BackupBytes
}

// Table writes one line per peer, none wider than width: where there is no room, less important columns are left out.
func (r *Report) Table(w io.Writer, width int) error {
	cells := make([][]string, len(columns)) // [column][0 is the title, then the peers]
	wide := make([]int, len(columns))
	total := 0
	for c, col := range columns {
		cells[c] = []string{col.title}
		for i := range r.Peers {
			cells[c] = append(cells[c], col.cell(r, &r.Peers[i]))
		}
		for _, s := range cells[c] {
			wide[c] = max(wide[c], utf8.RuneCountInString(s))
		}
		total += wide[c] + 2
	}
	for total-2 > width {
		drop := -1
		for c, col := range columns {
			if wide[c] > 0 && (drop < 0 || col.keep < columns[drop].keep) {
				drop = c
			}
		}
		if drop < 0 {
			break
		}
		total -= wide[drop] + 2
		wide[drop] = 0
	}
	for row := range len(r.Peers) + 1 {
		if _, err := fmt.Fprintln(w, line(cells, wide, row)); err != nil {
			return err
		}
	}
	return nil
}

// line joins one row's cells; columns of width 0 are out.
func line(cells [][]string, wide []int, row int) string {
	var parts []string
	for c, col := range columns {
		if wide[c] == 0 {
			continue
		}
		s := cells[c][row]
		pad := strings.Repeat(" ", wide[c]-utf8.RuneCountInString(s))
		if col.left {
			parts = append(parts, s+pad)
		} else {
			parts = append(parts, pad+s)
		}
	}
	return strings.TrimRight(strings.Join(parts, "  "), " ")
}

// clean takes control characters out of a text that another peer sent, so that it can't play with the terminal.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if !strconv.IsGraphic(r) {
			return -1
		}
		return r
	}, s)
}
