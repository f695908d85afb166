package main

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"shoal"
)

// machinesUp starts a run on all machines of a network and waits until it survives so many deaths.
func machinesUp(t *testing.T, l *lan, run *shoal.RunFile, deaths int, flags ...string) (all []*program, names []string) {
	t.Helper()
	n := len(l.machines)
	up := l.start(0, append([]string{"up", writeRun(t, run), "--peers", strconv.Itoa(n), "--cores", "1"}, flags...)...)
	link := up.line(t, "shoal:")
	all, names = []*program{up}, []string{up.name(t)}
	for i := 1; i < n; i++ {
		p := l.start(i, append([]string{"join", link, "--cores", "1"}, flags...)...)
		all, names = append(all, p), append(names, p.name(t))
	}
	up.safe(t, deaths)
	return all, names
}

// A network falls into two parts. The larger one goes on, the smaller one waits and says for whom; when the network is
// whole again, its peers join again by themselves, and all end with what an undisturbed run ends with: there never were
// two runs.
func TestPartition(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 5)
	run, hash, slow := paced(t, 5, 15*time.Second)
	run.Mesh.Backups = 2
	all, names := machinesUp(t, l, run, 2, slow)
	leader := slices.IndexFunc(all, func(p *program) bool { s := p.status(t); return s.Leader == s.Peer })
	few := []int{leader, (leader + 2) % 5} // the leader among them, or nobody would notice an election that is missing
	var many []int
	for i := range all {
		if !slices.Contains(few, i) {
			many = append(many, i)
		}
	}

	l.move("far", few...)
	stopped := map[int]int{}
	for _, i := range few {
		line := all[i].says(t, "waiting for ")
		for _, k := range many {
			if !strings.Contains(line, names[k]) {
				t.Errorf("%q does not name %s", line, names[k])
			}
		}
		all[i].said()
		s := all[i].status(t)
		if stopped[i] = s.Step; s.Stuck == "" || s.Leader != "" {
			t.Errorf("a peer of the smaller part: stuck %q, leader %q", s.Stuck, s.Leader)
		}
	}
	for _, i := range many {
		all[i].until(t, "the three go on", func(s *shoal.Status) bool {
			return s.InView() == 3 && len(s.Faults) == 2 && s.Step > 3+max(stopped[few[0]], stopped[few[1]])
		})
	}
	for _, i := range few {
		if s := all[i].status(t); s.Step != stopped[i] || s.Stuck == "" {
			t.Errorf("a peer of the smaller part is at step %d, it waited at %d (stuck: %q)", s.Step, stopped[i], s.Stuck)
		}
		for _, line := range all[i].said() {
			if strings.HasPrefix(line, "step ") {
				t.Errorf("a peer of the smaller part says %q", line)
			}
		}
	}

	l.move("hub", few...)
	for _, i := range few {
		all[i].says(t, "joining again as a newcomer")
	}
	all[many[0]].until(t, "all five are in the view", func(s *shoal.Status) bool { return s.InView() == 5 })
	ends(t, hash, all...)
}

// The path between two peers breaks, without a word, and both reach the third: that one carries their streams, and nobody
// is taken out.
func TestBrokenPath(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		a, b int
	}{{"to the leader", 0, 1}, {"between followers", 1, 2}} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.a > 0 {
				needLong(t)
			}
			l := newLAN(t, 3)
			run, hash, slow := paced(t, 3, 8*time.Second)
			all, _ := machinesUp(t, l, run, 1, slow)
			before := all[0].status(t)
			l.part(tc.a, tc.b, true)
			const longer = 6 * time.Second // than it takes to give somebody up
			begin := time.Now()
			for _, p := range all {
				s := p.until(t, "time has passed and the run goes on", func(s *shoal.Status) bool {
					return time.Since(begin) > longer && s.Step > before.Step && s.Stuck == ""
				})
				if s.InView() != 3 || len(s.Faults) > 0 || s.View != before.View {
					t.Errorf("view %d of %d peers, faults %+v; before it was view %d", s.View, s.InView(), s.Faults, before.View)
				}
				p.after(t, 10)
			}
			ends(t, hash, all...)
			for _, p := range all {
				if strings.Contains(strings.Join(p.said(), "\n"), "lost") {
					t.Error("somebody was lost")
				}
			}
		})
	}
}

// A machine is without its network for a while.
func TestUnplugged(t *testing.T) {
	needLong(t)
	const away = 20 * time.Second
	l := newLAN(t, 3)
	run, hash, slow := paced(t, 3, 40*time.Second)
	all, names := machinesUp(t, l, run, 1, slow)
	for _, p := range all {
		p.line(t, "step ")
	}
	l.unplug(2)
	back := time.After(away)
	for _, p := range all[:2] {
		p.lost(t, names[2])
	}
	all[2].says(t, "waiting for ")
	at := all[2].status(t).Step
	<-back
	if s := all[2].status(t); s.Step != at {
		t.Errorf("at step %d without the others, it waited at %d", s.Step, at)
	}
	l.plug(2)
	all[2].says(t, "joining again as a newcomer")
	for _, p := range all[:2] {
		p.says(t, names[2]+" joined")
	}
	ends(t, hash, all...)
}
