package testnet

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"shoal/internal/runfile"
)

// checkFaults says what can't be about the faults of c, as the flag's name and what is wrong.
func (c *Config) checkFaults() (flag string, err error) {
	started := c.all()
	for _, f := range c.Faults {
		started += f.Count
	}
	for i := range c.Faults {
		f := &c.Faults[i]
		switch {
		case f.Step > c.RunFile.Train.Steps:
			return f.Kind, fmt.Errorf("%q: the run has only %d steps", f, c.RunFile.Train.Steps)
		case f.Kind == Join && f.Step == c.RunFile.Train.Steps:
			return f.Kind, fmt.Errorf("%q: step %d is the last one, join earlier", f, f.Step)
		case f.Kind == Stop && !canStop:
			return f.Kind, fmt.Errorf("%q: this system can't stop processes", f)
		case f.Peer > started:
			return f.Kind, fmt.Errorf("%q: there is no peer %d, the run has %d", f, f.Peer, started)
		case f.Phase == "checkpoint" && c.RunFile.Checkpoint.Every == 0:
			return f.Kind, fmt.Errorf("%q: nothing is saved in this run, set checkpoint.every", f)
		case f.Phase == "evaluate" && (f.Step != c.RunFile.Train.Steps || c.RunFile.Data.Eval == 0):
			return f.Kind, fmt.Errorf("%q: held-out samples come after the last step, %d, if there are any", f, c.RunFile.Train.Steps)
		}
	}
	for _, peer := range slices.Sorted(maps.Keys(c.Slow)) {
		factor := c.Slow[peer]
		if peer < 1 || peer > started {
			return "slow", fmt.Errorf("%d=%g: there is no peer %[1]d, the run has %[3]d", peer, factor, started)
		}
		if !(factor >= 1 && factor <= MaxSlow) {
			return "slow", fmt.Errorf("%d=%g: a peer can be 1 to %d times slower", peer, factor, MaxSlow)
		}
	}
	return c.checkAlive()
}

// checkAlive wants somebody to be left, and each victim to be there.
func (c *Config) checkAlive() (flag string, err error) {
	alive, started, daemons := c.all(), c.all(), c.Peers
	gone := map[int]bool{}
	for _, f := range bySteps(c.Faults) {
		switch {
		case f.Kind == Join:
			alive, started, daemons = alive+f.Count, started+f.Count, daemons+f.Count
			if alive > MaxPeers {
				return f.Kind, fmt.Errorf("%q: that makes %d peers, use at most %d", f, alive, MaxPeers)
			}
		case f.Peer > started:
			return f.Kind, fmt.Errorf("%q: peer %d has not joined by then", f, f.Peer)
		case gone[f.Peer]:
			return f.Kind, fmt.Errorf("%q: peer %d is gone by then", f, f.Peer)
		case f.lasting() && alive == 1:
			return f.Kind, fmt.Errorf("%q: it is the only peer by then, and the run would be lost", f)
		case f.lasting() && daemons == 1 && (f.Peer > 0 || f.Role == "leader") && !c.browser(f.Peer-1):
			return f.Kind, fmt.Errorf("%q: it is the only process by then, and tabs can't keep the run's log", f)
		case f.lasting():
			alive--
			if f.Role == "leader" || f.Peer > 0 && !c.browser(f.Peer-1) {
				daemons--
			}
			gone[f.Peer] = f.Peer > 0
		}
	}
	return "", nil
}

// warning says that more is done at a time than the run promises to survive. Empty if not.
func (c *Config) warning() string {
	alive, daemons := c.all(), c.Peers
	list := bySteps(c.Faults)
	for i := 0; i < len(list); {
		step, deaths, lost := list[i].Step, toll{}, toll{}
		for ; i < len(list) && list[i].Step == step; i++ {
			one := toll{1, 1}
			if c.browser(list[i].Peer - 1) {
				one.daemons = 0 // it has no vote
			}
			switch f := list[i]; f.Kind {
			case Kill, Stop:
				deaths = deaths.plus(one)
				if f.lasting() {
					lost = lost.plus(one)
				}
			case Leave:
				lost = lost.plus(one)
			case Join:
				alive, daemons = alive+f.Count, daemons+f.Count
			}
		}
		if copies, votes := promise(c.RunFile, alive, daemons); deaths.all > copies || deaths.daemons > votes {
			return fmt.Sprintf("step %d: %d of %d peers fail at a time, the run promises to survive %d (mesh.backups: %d, %d voters): it may stop",
				step, deaths.all, alive, min(copies, votes), c.RunFile.Mesh.Backups, voters(daemons))
		}
		alive, daemons = alive-lost.all, daemons-lost.daemons
	}
	return ""
}

// toll is a number of peers, and how many of them are not tabs.
type toll struct{ all, daemons int }

func (c toll) plus(d toll) toll { return toll{c.all + d.all, c.daemons + d.daemons} }

// promise is how many peers may die at the same time because of the copies that there are, and how many daemons because of
// their votes.
func promise(r *runfile.Run, peers, daemons int) (copies, votes int) {
	copies = min(r.Mesh.Backups, peers-1)
	if r.Mesh.Strategy == "ddp" {
		copies = peers - 1
	}
	return copies, (voters(daemons) - 1) / 2
}

// voters is how many of the daemons have a vote on the run's log.
func voters(peers int) int {
	switch {
	case peers >= 5:
		return 5
	case peers >= 3:
		return 3
	}
	return 1
}

// bySteps sorts faults by step; those of one step stay in order, joins last.
func bySteps(list []Fault) []Fault {
	list = slices.Clone(list)
	last := func(f Fault) int {
		if f.Kind == Join {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(list, func(a, b Fault) int {
		return cmp.Or(cmp.Compare(a.Step, b.Step), cmp.Compare(last(a), last(b)))
	})
	return list
}
