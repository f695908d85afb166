package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"shoal/internal/median"
)

// side is one of those who do the same work.
type side struct {
	name    string
	turn    func(time.Duration) (seconds float64, err error) // works for about so long; the time of one call
	seconds []float64                                        // by round
}

// match is work that several sides do in turn.
type match struct {
	name, shape string
	ours        *side
	theirs      []*side
}

// contains says whether text is in the name and shape.
func (m *match) contains(text string) bool { return strings.Contains(m.name+" "+m.shape, text) }

// settle is the pause after a turn in which threads that wait for more work by spinning give up their core.
const settle = 20 * time.Millisecond

// round gives every side a turn. Every other round they come in the opposite order, so that what one leaves behind, a warm
// core or a full cache, is nobody's advantage.
func (m *match) round(slice time.Duration) error {
	order := append([]*side{m.ours}, m.theirs...)
	if len(m.ours.seconds)%2 == 1 {
		slices.Reverse(order)
	}
	for _, s := range order {
		x, err := s.turn(slice)
		if err != nil {
			return fmt.Errorf("%s %s, %s: %w", m.name, m.shape, s.name, err)
		}
		s.seconds = append(s.seconds, x)
		time.Sleep(settle)
	}
	return nil
}

// fastest is the one of theirs that took least for the same work, by the median; nil if there is none.
func (m *match) fastest() *side {
	var best *side
	for _, s := range m.theirs {
		if s.name == kept {
			continue
		}
		if best == nil || median.Of(s.seconds) < median.Of(best.seconds) {
			best = s
		}
	}
	return best
}

// side is the one of theirs with this name, or nil.
func (m *match) side(name string) *side {
	if i := slices.IndexFunc(m.theirs, func(s *side) bool { return s.name == name }); i >= 0 {
		return m.theirs[i]
	}
	return nil
}

// ratio is how many times as fast we are as s, the median over the rounds; NaN without s.
func (m *match) ratio(s *side) float64 {
	if s == nil {
		return math.NaN()
	}
	ratios := make([]float64, len(s.seconds))
	for i := range ratios {
		ratios[i] = s.seconds[i] / m.ours.seconds[i]
	}
	return median.Of(ratios)
}
