package member

import (
	"regexp"
	"strings"
	"testing"
	"testing/cryptotest"

	"go.etcd.io/raft/v3/raftpb"
)

// TestRulesMatter turns one rule of PROTOCOL.md off at a time and asserts that the simulation finds an invariant violated.
func TestRulesMatter(t *testing.T) {
	for _, x := range []struct {
		name   string
		want   []string // the invariants of which one must be found violated
		from   uint64   // seed to begin with: found by one run of all
		change func(*setup)
	}{
		{"1 fence, with 2 off too", []string{"1", "2", "3", "5"}, 0, func(s *setup) { s.flaps, s.broken.noFence, s.broken.early = true, true, true }},
		{"2 own term first", []string{"12"}, 340, func(s *setup) { s.flaps, s.broken.early = true, true }},
		{"5 ready is repeated", []string{"12"}, 0, func(s *setup) { s.broken.readyOnce = true }},
		{"6 fillers are no holders", []string{"3", "4", "5"}, 0, func(s *setup) { s.broken.fillersOwn = true }},
		{"6 holders have their copies", []string{"5"}, 0, func(s *setup) { s.hasty = true }},
		{"8 the last holder stays", []string{"4"}, 0, func(s *setup) { s.broken.dropLast = true }},
		{"22 who restores can read", []string{"8"}, 0, func(s *setup) { s.saving(uint64(s.peers)); s.broken.allRestore = true }},
		{"22 a restore goes back", []string{"3", "4"}, 0, func(s *setup) { s.saving(uint64(s.peers)); s.broken.keepStep = true }},
		{"14 a gap is no silence", []string{"14"}, 240, func(s *setup) { s.broken.noResume, s.burst = true, true }},
		{"17 joins wait for a Commit", []string{"13"}, 0, func(s *setup) { s.broken.act = joinAtOnce }},
		{"18 voters are proposed again", []string{"12"}, 0, func(s *setup) { s.broken.confOnce, s.broken.act = true, crowdOut() }},
	} {
		t.Run(x.name, func(t *testing.T) {
			const most = 3000
			for seed := x.from; seed < x.from+most; seed++ {
				cryptotest.SetGlobalRandom(t, seed)
				if fault := newSchedule(t, seed, x.change).run(); violates(fault, x.want) {
					t.Logf("seed %d: %s", seed, fault)
					return
				}
			}
			t.Errorf("nothing was found in %d schedules", most)
		})
	}
}

// violates says whether a fault is about one of the invariants.
func violates(fault string, invariants []string) bool {
	return regexp.MustCompile(`(member|moment) \d+: (` + strings.Join(invariants, "|") + `): `).MatchString(fault)
}

// A change of voters that vanishes is proposed until it is seen: the schedules come to their end.
func TestCrowdedOutVoters(t *testing.T) {
	for seed := range uint64(20) {
		cryptotest.SetGlobalRandom(t, seed)
		if fault := newSchedule(t, seed, func(s *setup) { s.broken.act = crowdOut() }).run(); fault != "" {
			t.Errorf("seed %d: %s", seed, fault)
		}
	}
}

// joinAtOnce begins a view for members that have joined in the middle of an attempt.
func joinAtOnce(c *Core) bool {
	arrived := c.arrived()
	if !c.st.started() || c.busy() || len(arrived) == 0 {
		return false
	}
	p := c.planned(false)
	if !p.move(append(p.ids[:len(p.ids):len(p.ids)], arrived...)) {
		return false
	}
	p.reason = "joined"
	return c.proposeNext(p.record(recordView))
}

// crowdOut has each leader propose, once, a change of the configuration that changes nothing in front of a real one,
// which the library then drops silently.
func crowdOut() func(*Core) bool {
	done := map[*Core]bool{}
	return func(c *Core) bool {
		if len(c.confChanges()) > 0 && !done[c] {
			done[c] = true
			same := &raftpb.ConfChangeSingle{Type: raftpb.ConfChangeAddNode.Enum(), NodeId: new(c.cfg.ID)}
			if err := c.rn.ProposeConfChange(&raftpb.ConfChangeV2{Changes: []*raftpb.ConfChangeSingle{same}}); err != nil {
				panic(err)
			}
		}
		return false
	}
}
