package status

import (
	"fmt"
	"strings"
)

// InView is the number of members that take part in steps.
func (s *Status) InView() (n int) {
	for _, m := range s.Members {
		if m.Rank >= 0 {
			n++
		}
	}
	return n
}

// ToFill is the number of ranges that members are still to get.
func (s *Status) ToFill() (n int) {
	for _, m := range s.Members {
		n += m.ToFill
	}
	return n
}

// Survival says how many simultaneous deaths nothing is lost by, and why not more.
func (s *Status) Survival() string {
	if s.Stuck != "" {
		return "no death: the run waits already"
	}
	if s.InView() <= 1 {
		return "no death: there is no other peer"
	}
	quorum := max(0, s.Voters-1) / 2
	backed := s.backed()
	if quorum == 0 && s.Redundancy > 0 {
		return fmt.Sprintf("not the death of %s, the one voter, which fewer than 3 daemons have; of the others any %s may die: %s",
			short(s.voter()), amount(s.Redundancy), backed)
	}
	var why []string
	if s.Redundancy <= quorum {
		why = append(why, backed)
	}
	if quorum <= s.Redundancy {
		why = append(why, s.voted())
	}
	n := "no death"
	switch {
	case s.Survives == 1:
		n = "any 1 death"
	case s.Survives > 1:
		n = fmt.Sprintf("any %d deaths at once", s.Survives)
	}
	return n + ": " + strings.Join(why, ", and ")
}

// Data says how many peers have all files of the run's data, and what becomes of it when they die; empty if there are none.
func (s *Status) Data() string {
	if !s.Files {
		return ""
	}
	var with []string
	for _, m := range s.Members {
		if m.Data {
			with = append(with, m.Peer)
		}
	}
	switch len(with) {
	case 0:
		return "no peer has all of it: the run waits when it needs what nobody has fetched"
	case 1:
		return fmt.Sprintf("of %d peers only %s has all of it: without that one the run waits when it needs what nobody has fetched",
			len(s.Members), short(with[0]))
	}
	return fmt.Sprintf("%d of %d peers have all of it", len(with), len(s.Members))
}

// backed says why there are no more backups.
func (s *Status) backed() string {
	others := s.InView() - 1
	fills := s.ToFill()
	switch {
	case s.Redundancy < min(s.Wanted, others) && fills > 0:
		return fmt.Sprintf("backups are being made, %d range%s to go", fills, plural(fills))
	case s.Redundancy < min(s.Wanted, others):
		return fmt.Sprintf("some shards have %d of %d backups", s.Redundancy, min(s.Wanted, others))
	case others <= s.Wanted:
		return fmt.Sprintf("there are %d peers", others+1)
	}
	return fmt.Sprintf("mesh.backups is %d", s.Wanted)
}

// voted says why there are no more voters.
func (s *Status) voted() string {
	next := map[int]string{1: ", 3 take 3 daemons", 3: ", 5 take 5 daemons"}[s.Voters]
	return fmt.Sprintf("the log has %d voter%s%s", s.Voters, plural(s.Voters), next)
}

// voter is the first voter's peer id.
func (s *Status) voter() string {
	for _, m := range s.Members {
		if m.Voter {
			return m.Peer
		}
	}
	return "nobody"
}

func amount(n int) string {
	if n == 1 {
		return "one"
	}
	return fmt.Sprint(n)
}

func plural(n int) string {
	if n == 1 {
		return ""
	}
	return "s"
}
