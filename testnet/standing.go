package testnet

import "slices"

// Standing is what a child knows of its run, as it tells it now and then.
type Standing struct {
	Self       string   `json:"self"`       // this peer's id
	View       uint64   `json:"view"`       // number of the view
	Members    []string `json:"members"`    // peer ids of the view
	Leader     string   `json:"leader"`     // peer id, or empty
	Redundancy int      `json:"redundancy"` // further holders that every range has at least
	Wanted     int      `json:"wanted"`     // how many it should have
	Promise    int      `json:"promise"`    // deaths at a time that the run survives
	Fills      int      `json:"fills"`      // ranges that are still to be filled, on all peers
	Filling    int      `json:"filling"`    // those of this peer
	Owns       int64    `json:"owns"`       // elements
	Holds      int64    `json:"holds"`      // elements held for other owners
	Stuck      string   `json:"stuck"`      // why the run can't go on; empty if it can

	RSS        int64 `json:"rss"` // bytes
	Streams    int   `json:"streams"`
	Goroutines int   `json:"goroutines"`
}

// plays says whether this peer has a role now.
func (s *Standing) plays(role string) bool {
	switch role {
	case self:
		return true
	case "leader":
		return s.Leader == s.Self && s.Self != ""
	case "owner":
		return s.Owns > 0
	case "backup":
		return s.Holds > 0
	case "joiner":
		return s.Filling > 0
	case "donor":
		return s.Owns > 0 && s.Fills > s.Filling
	}
	return false
}

// Like says whether nothing changed but what always does.
func (s *Standing) Like(o *Standing) bool {
	return s.View == o.View && s.Leader == o.Leader && s.Redundancy == o.Redundancy && s.Wanted == o.Wanted &&
		s.Promise == o.Promise && s.Fills == o.Fills && s.Stuck == o.Stuck && slices.Equal(s.Members, o.Members)
}

// whole says whether the members are exactly those with the sorted ids, and the run is as safe as it can be with them.
func (s *Standing) whole(ids []string) bool {
	members := slices.Sorted(slices.Values(s.Members))
	backups := min(s.Wanted, len(ids)-1)
	return s.Stuck == "" && slices.Equal(members, ids) && s.Fills == 0 && s.Redundancy >= backups &&
		s.Promise >= min(backups, (voters(len(ids))-1)/2)
}
