package place

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// model makes ranges as a transformer's layout has them: so many groups of up to 64 ranges, all but the last of a group alike.
func model(rng *rand.Rand, groups int) (ranges []Range) {
	for g := range groups {
		n := 1 + rng.IntN(64)
		size := int64(256 * (1 + rng.IntN(200)))
		for i := range n {
			r := Range{Group: g, Size: size}
			if i == n-1 {
				r.Size = 1 + rng.Int64N(size)
			}
			ranges = append(ranges, r)
		}
	}
	return ranges
}

func equals(n int) []Peer { return slices.Repeat([]Peer{{Weight: 1, Keep: true}}, n) }

func big() []Range {
	var ranges []Range
	for g := range 24 {
		for range 64 {
			ranges = append(ranges, Range{Group: g, Size: 100_000})
		}
	}
	return ranges
}

func people(rng *rand.Rand, n int) (peers []Peer) {
	for range n {
		p := Peer{Weight: rng.Int64N(6), Browser: rng.IntN(3) == 0, Keep: rng.IntN(8) > 0}
		if rng.IntN(2) == 0 {
			p.Weight = 1
		}
		peers = append(peers, p)
	}
	return peers
}

// scene is one random case.
type scene struct {
	ranges  []Range
	peers   []Peer
	backups int
	have    Map // anything that passes Check, each range with a holder
}

func scenes(t *testing.T, n int, f func(t *testing.T, rng *rand.Rand, s scene)) {
	for seed := range uint64(n) {
		rng := rand.New(rand.NewPCG(seed, 7))
		s := scene{ranges: model(rng, 1+rng.IntN(5)), backups: rng.IntN(5) - 1}
		s.peers = people(rng, 1+rng.IntN(7))
		for range s.ranges {
			owner := rng.IntN(len(s.peers))
			if rng.IntN(3) > 0 {
				owner = 0
			}
			var list []int
			for r := range s.peers {
				if r != owner && rng.IntN(3) == 0 {
					list = append(list, r)
				}
			}
			s.have.Owner, s.have.Backups = append(s.have.Owner, owner), append(s.have.Backups, list)
		}
		if ok := t.Run(fmt.Sprint(seed), func(t *testing.T) { f(t, rng, s) }); !ok {
			return
		}
	}
}

// staying counts peers, or daemons, that stay; all count when nobody stays.
func staying(peers []Peer) (all, daemons int) {
	none := !slices.ContainsFunc(peers, func(p Peer) bool { return p.Keep })
	for _, p := range peers {
		if p.Keep || none {
			all++
			if !p.Browser {
				daemons++
			}
		}
	}
	return all, daemons
}

// wanted asserts what must hold for any map that Start or Want makes.
func wanted(t *testing.T, s scene, m Map) {
	t.Helper()
	if err := m.Check(len(s.ranges), len(s.peers)); err != nil {
		t.Fatal(err)
	}
	all, daemons := staying(s.peers)
	want := all - 1
	if s.backups != All {
		want = min(want, s.backups)
	}
	for i := range s.ranges {
		if len(m.Backups[i]) != want {
			t.Fatalf("range %d has %d backups, want %d", i, len(m.Backups[i]), want)
		}
		real := 0
		for h := range m.Holders(i) {
			if !s.peers[h].Keep && slices.ContainsFunc(s.peers, func(p Peer) bool { return p.Keep }) {
				t.Fatalf("range %d: rank %d holds it though it is leaving", i, h)
			}
			if !s.peers[h].Browser {
				real++
			}
		}
		if daemons > 0 && real == 0 {
			t.Fatalf("range %d is left to browsers %v", i, slices.Collect(m.Holders(i)))
		}
	}
}

func TestWantIsStable(t *testing.T) {
	scenes(t, 400, func(t *testing.T, rng *rand.Rand, s scene) {
		start := Start(s.ranges, s.peers, s.backups)
		wanted(t, s, start)
		if again := Want(s.ranges, s.peers, s.backups, start); !again.Equal(start) {
			t.Fatalf("Want(Start) differs: %d fills", len(Missing(start, again)))
		}
		before := s.have.Clone()
		want := Want(s.ranges, s.peers, s.backups, s.have)
		wanted(t, s, want)
		if !s.have.Equal(before) {
			t.Fatal("Want changed its argument")
		}
		if again := Want(s.ranges, s.peers, s.backups, want); !again.Equal(want) {
			t.Fatalf("Want(Want) differs: %d fills", len(Missing(want, again)))
		}
	})
}

// Fills in any order, a few at a time with settling in between, lead to what is wanted, and no range ever loses a holder
// before it has its new ones.
func TestFillsConverge(t *testing.T) {
	scenes(t, 200, func(t *testing.T, rng *rand.Rand, s scene) {
		have, want := s.have, Want(s.ranges, s.peers, s.backups, s.have)
		todo := len(Missing(have, want))
		for range todo + 1 {
			missing := Missing(have, want)
			if len(missing) == 0 {
				break
			}
			n := 1 + rng.IntN(len(missing))
			for _, f := range missing {
				if have.Holds(f.Range, f.To) {
					t.Fatalf("fill %v to one who has it", f)
				}
			}
			rng.Shuffle(len(missing), func(a, b int) { missing[a], missing[b] = missing[b], missing[a] })
			have = have.Apply(missing[:n])
			if rng.IntN(2) == 0 {
				have = Settle(have, want)
			}
			if err := have.Check(len(s.ranges), len(s.peers)); err != nil {
				t.Fatal(err)
			}
		}
		if have = Settle(have, want); !have.Equal(want) {
			t.Fatal("all is filled and settled, and not as wanted")
		}
	})
}

func TestSettleWaitsForAllHolders(t *testing.T) {
	have := Map{Owner: []int{0, 0}, Backups: [][]int{{1}, {1, 2}}}
	want := Map{Owner: []int{2, 2}, Backups: [][]int{{0}, {1}}}
	got := Settle(have, want)
	if !got.Equal(Map{Owner: []int{0, 2}, Backups: [][]int{{1}, {1}}}) {
		t.Errorf("%+v", got)
	}
}

func TestMissingTakesTurns(t *testing.T) {
	have := Map{Owner: []int{0, 0, 0, 1, 1, -1}, Backups: [][]int{{1}, {}, {}, {}, {}, {}}}
	want := Map{Owner: []int{0, 0, 2, 1, 1, 0}, Backups: [][]int{{2}, {2}, {0}, {0, 2}, {2}, {1}}}
	got := Missing(have, want) // rank 0's best held range comes last
	if w := []Fill{{1, 2}, {3, 0}, {2, 2}, {3, 2}, {0, 2}, {4, 2}}; !slices.Equal(got, w) {
		t.Errorf("%v, want %v", got, w)
	}
}

func TestSurvive(t *testing.T) {
	scenes(t, 200, func(t *testing.T, rng *rand.Rand, s scene) {
		rank, after := make([]int, len(s.peers)), []Peer(nil)
		for r, p := range s.peers {
			if rank[r] = -1; rng.IntN(3) > 0 {
				rank[r] = len(after)
				after = append(after, p)
			}
		}
		m, lost := s.have.Survive(rank, after, s.ranges)
		if err := m.Check(len(s.ranges), len(after)); err != nil {
			t.Fatal(err)
		}
		for i := range s.ranges {
			var want []int
			for h := range s.have.Holders(i) {
				if rank[h] >= 0 {
					want = append(want, rank[h])
				}
			}
			got := slices.Collect(m.Holders(i))
			if o := s.have.Owner[i]; rank[o] >= 0 && m.Owner[i] != rank[o] {
				t.Fatalf("range %d: its living owner was replaced", i)
			}
			slices.Sort(want)
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Fatalf("range %d: holders %v, want %v", i, got, want)
			}
			if slices.Contains(lost, i) != (len(want) == 0) {
				t.Fatalf("range %d: holders %v, lost %v", i, want, lost)
			}
		}
		if want := Want(s.ranges, after, s.backups, m); len(after) > 0 { // also with lost ranges
			if err := want.Check(len(s.ranges), len(after)); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func owned(m Map, ranges []Range, peers int) []int64 {
	load := make([]int64, peers)
	for i, o := range m.Owner {
		load[o] += ranges[i].Size
	}
	return load
}

func held(m Map, ranges []Range, peers int) []int64 {
	load := owned(m, ranges, peers)
	for i := range m.Owner {
		for _, b := range m.Backups[i] {
			load[b] += ranges[i].Size
		}
	}
	return load
}

func near(t *testing.T, what string, got, want, within float64) {
	t.Helper()
	if got < want*(1-within) || got > want*(1+within) {
		t.Errorf("%s: %.0f, want %.0f to within %.1f%%", what, got, want, 100*within)
	}
}

func TestStartFollowsWeights(t *testing.T) {
	ranges := big()
	for _, weights := range [][]int64{{1}, {1, 1}, {1, 1, 1}, {5, 1, 1}, {3, 0, 2, 7, 1}, slices.Repeat([]int64{1}, 100)} {
		var peers []Peer
		var sum int64
		for _, w := range weights {
			peers = append(peers, Peer{Weight: w, Keep: true})
			sum += w
		}
		m := Start(ranges, peers, 1)
		total := float64(len(ranges)) * 100_000
		for r, n := range owned(m, ranges, len(peers)) {
			near(t, fmt.Sprintf("weights %v: rank %d owns", weights[:min(len(weights), 5)], r), float64(n), total*float64(weights[r])/float64(sum), 1.0/15)
			if len(weights) < 10 {
				near(t, fmt.Sprintf("weights %v: rank %d owns", weights, r), float64(n), total*float64(weights[r])/float64(sum), 0.005)
			}
		}
	}
}

// In each group a peer has one stretch, which is right to within a range beside what earlier groups have left to make up for.
func TestStartIsContiguous(t *testing.T) {
	ranges := big()
	for n := 1; n <= 9; n++ {
		m := Start(ranges, equals(n), 1)
		for g := 0; g < len(ranges); g += 64 {
			if !slices.IsSorted(m.Owner[g : g+64]) {
				t.Fatalf("%d peers: owners of group %d: %v", n, g/64, m.Owner[g:g+64])
			}
			for r := range n {
				count := 0
				for _, o := range m.Owner[g : g+64] {
					if o == r {
						count++
					}
				}
				if d := float64(count) - 64/float64(n); d > 2 || d < -2 {
					t.Errorf("%d peers: rank %d has %d of 64 ranges", n, r, count)
				}
			}
		}
	}
}

func TestDeadPeersLoadFallsOnAll(t *testing.T) {
	ranges := big()
	for _, n := range []int{3, 5, 8} {
		m := Start(ranges, equals(n), 1)
		for r, h := range held(m, ranges, n) {
			near(t, fmt.Sprintf("%d peers: rank %d holds", n, r), float64(h), 2*float64(len(ranges))*100_000/float64(n), 0.05)
		}
		for dead := range n {
			after, lost := m.Survive(without(n, dead), equals(n-1), ranges)
			if len(lost) > 0 {
				t.Fatal("one death lost ranges")
			}
			for r, o := range owned(after, ranges, n-1) {
				near(t, fmt.Sprintf("%d peers without %d: rank %d owns", n, dead, r), float64(o), float64(len(ranges))*100_000/float64(n-1), 0.05)
			}
			if moved := diff(after, Want(ranges, equals(n-1), 1, after), 0); moved > 0 {
				t.Errorf("%d peers without %d: %d owners move after that", n, dead, moved)
			}
		}
	}
}

func without(n, dead int) []int {
	rank := make([]int, n)
	for r := range rank {
		rank[r] = r
		if r > dead {
			rank[r]--
		}
	}
	rank[dead] = -1
	return rank
}

// diff counts the ranges whose owner differs.
func diff(a, b Map, from int) (n int) {
	for i := from; i < len(a.Owner); i++ {
		if a.Owner[i] != b.Owner[i] {
			n++
		}
	}
	return n
}

func size(fills []Fill, ranges []Range) (n int64) {
	for _, f := range fills {
		n += ranges[f.Range].Size
	}
	return n
}

// A newcomer is sent its share and little else; a death costs one copy of what the dead one held.
func TestFewMoves(t *testing.T) {
	ranges := big()
	total := float64(len(ranges)) * 100_000
	for n := 2; n <= 8; n++ {
		m := Start(ranges, equals(n), 1)
		for joiner := n; joiner < n+3; joiner++ { // one after another
			want := Want(ranges, equals(joiner+1), 1, m)
			for _, f := range Missing(m, want) {
				if f.To != joiner {
					t.Fatalf("%d peers and joiner %d: range %d goes to rank %d", n, joiner, f.Range, f.To)
				}
			}
			if got, due := float64(size(Missing(m, want), ranges)), 2*total/float64(joiner+1); got > 1.05*due {
				t.Errorf("%d peers and joiner %d: %.0f elements move, its share is %.0f", n, joiner, got, due)
			}
			m = want
			own, hold := owned(m, ranges, joiner+1), held(m, ranges, joiner+1)
			for r := range joiner + 1 {
				near(t, fmt.Sprintf("joiner %d: rank %d owns", joiner, r), float64(own[r]), total/float64(joiner+1), 0.21)
				near(t, fmt.Sprintf("joiner %d: rank %d holds", joiner, r), float64(hold[r]), 2*total/float64(joiner+1), 0.21)
			}
		}
		dead := n / 2
		gone := float64(held(m, ranges, n+3)[dead])
		after, _ := m.Survive(without(n+3, dead), equals(n+2), ranges)
		if got := float64(size(Missing(after, Want(ranges, equals(n+2), 1, after)), ranges)); got > 1.3*gone {
			t.Errorf("%d peers, one died: %.0f elements move, it held %.0f", n+3, got, gone)
		}
	}
}

// Who leaves is relieved of everything; what the others have stays where it is.
func TestLeaver(t *testing.T) {
	ranges, peers := big(), equals(4)
	m := Start(ranges, peers, 1)
	peers[1].Keep = false
	want := Want(ranges, peers, 1, m)
	if h := held(want, ranges, 4); h[1] != 0 {
		t.Errorf("it still holds %d elements", h[1])
	}
	for i := range ranges {
		if o := m.Owner[i]; o != 1 && want.Owner[i] != o {
			t.Fatalf("range %d moves from rank %d to %d", i, o, want.Owner[i])
		}
	}
	if m.Redundancy(peers) != 0 || want.Redundancy(peers) != 1 {
		t.Errorf("redundancy %d, then %d", m.Redundancy(peers), want.Redundancy(peers))
	}
}

func TestBackups(t *testing.T) {
	ranges := big()
	for _, c := range []struct{ peers, backups, want int }{{1, 1, 0}, {1, All, 0}, {4, 0, 0}, {4, 2, 2}, {4, 9, 3}, {4, All, 3}} {
		if got := Start(ranges, equals(c.peers), c.backups).Redundancy(equals(c.peers)); got != c.want {
			t.Errorf("%+v: redundancy %d", c, got)
		}
	}
	// 5:1:1: the big one's ranges are backed up by both others alike
	peers := []Peer{{Weight: 5, Keep: true}, {Weight: 1, Keep: true}, {Weight: 1, Keep: true}}
	h := held(Start(ranges, peers, 1), ranges, 3)
	near(t, "rank 1 beside rank 2", float64(h[1]), float64(h[2]), 0.02)
}

func TestBrowsers(t *testing.T) {
	ranges := big()
	peers := []Peer{{Weight: 1, Browser: true, Keep: true}, {Weight: 1, Keep: true}, {Weight: 1, Browser: true, Keep: true}}
	m := Start(ranges, peers, 1)
	wanted(t, scene{ranges: ranges, peers: peers, backups: 1}, m)
	for r, n := range owned(m, ranges, 3) {
		near(t, fmt.Sprintf("rank %d owns", r), float64(n), float64(len(ranges))*100_000/3, 0.01)
	}
	if n := owned(Start(ranges, peers, 0), ranges, 3); n[0]+n[2] != 0 {
		t.Errorf("without backups, browsers own %d and %d", n[0], n[2])
	}
}

func TestNothingToPlace(t *testing.T) {
	if m := Start(nil, equals(3), 1); len(m.Owner) != 0 || m.Redundancy(equals(3)) != 2 {
		t.Errorf("%+v", m)
	}
	if m := Start(big()[:1], nil, 1); m.Owner[0] != -1 {
		t.Errorf("%+v", m)
	}
	empty := []Range{{Group: 0}, {Group: 7}, {Group: 7, Size: -4}}
	s := scene{ranges: empty, peers: equals(3), backups: 1}
	wanted(t, s, Start(empty, s.peers, 1))
}

func TestSizesAndWeightsAtTheirLimits(t *testing.T) {
	ranges, peers := big(), equals(256)
	for i := range ranges {
		ranges[i].Size = 1<<63 - 1
	}
	for i := range peers {
		peers[i].Weight = 1<<63 - 1 - int64(i)
	}
	for _, c := range []struct{ peers, backups int }{{256, 2}, {40, All}} {
		s := scene{ranges: ranges, peers: peers[:c.peers], backups: c.backups}
		m := Start(ranges, s.peers, c.backups)
		wanted(t, s, m)
		for r := range c.peers {
			if n := len(ranges) / c.peers; !slices.Contains(m.Owner, r) {
				t.Fatalf("rank %d owns nothing of about %d ranges", r, n)
			}
		}
	}
}

func TestCheck(t *testing.T) {
	for want, m := range map[string]Map{
		"for 2 ranges":           {Owner: []int{0}, Backups: [][]int{{1}}},
		"lists of backups":       {Owner: []int{0, 1}, Backups: [][]int{{1}}},
		"range 1: owner 3":       {Owner: []int{0, 3}, Backups: [][]int{{1}, {}}},
		"range 0: owner -2":      {Owner: []int{-2, 1}, Backups: [][]int{{1}, {}}},
		"range 1: backups [1]":   {Owner: []int{0, 1}, Backups: [][]int{{1}, {1}}},
		"range 1: backups [2 0]": {Owner: []int{0, 1}, Backups: [][]int{{1}, {2, 0}}},
		"range 1: backups [0 0]": {Owner: []int{0, 1}, Backups: [][]int{{1}, {0, 0}}},
		"range 0: backups [-1]":  {Owner: []int{0, 1}, Backups: [][]int{{-1}, {}}},
		"backups without":        {Owner: []int{-1, 1}, Backups: [][]int{{1}, {}}},
	} {
		if err := m.Check(2, 3); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want something about %q", m, err, want)
		}
	}
	if err := (Map{}).Check(0, 257); err == nil {
		t.Error("257 peers pass")
	}
	if err := (Map{Owner: []int{-1, 1}, Backups: [][]int{nil, {0, 2}}}).Check(2, 3); err != nil {
		t.Error(err)
	}
}
