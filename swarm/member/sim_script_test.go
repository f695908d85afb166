package member

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/cryptotest"

	"shoal/internal/place"
	"shoal/swarm/wire"
)

var update = flag.Bool("update", false, "write what scripts print into testdata")

// script is a cluster that does what a text file says. Each line is a command; what comes of it stands below,
// indented. Members are named by their ids, or as leader or follower (the first that doesn't lead).
//
//	start PEERS [backups N] [steps N] [browsers N] [saves N]   a checkpoint every so many steps, which all can read
//	tick N                     let time pass
//	until step N | view N | done | voters N ...   let time pass until the log is there, at most 400 ticks
//	kill WHO ...               processes end, links are reset
//	vanish WHO ...             their machines end: silence
//	stop WHO, continue WHO     SIGSTOP, SIGCONT
//	cut WHO ... | WHO ...      no path between these and those; mend is its end
//	slow WHO TICKS             computing takes longer
//	join NAME, leave WHO       a process joins; a member leaves
//	hold KIND FROM TO          control messages (raft, ready, beat or all) are kept back; FROM and TO may be *
//	release, lose              what was held arrives, or never does; nothing is held any more
//	forget WHO ...             they can't read checkpoints any more
//	recover WHO                the survivors begin the log anew
//	ends                       the run may end with an error
//	expect stuck WHO | view N WHO ... | leader WHO | holds WHO RANGE ... | nothing
//	show                       where everybody is
type script struct {
	*world
	t    *testing.T
	line string
}

func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts in testdata: %v", err)
	}
	for _, name := range files {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txt"), func(t *testing.T) {
			want, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			got := play(t, want)
			if *update {
				if err := os.WriteFile(name, got, 0o644); err != nil {
					t.Fatal(err)
				}
			} else if !bytes.Equal(got, want) {
				t.Errorf("%s differs; with -update it becomes:\n%s", name, got)
			}
		})
	}
}

// play runs the commands of a script and gives it back with what they print.
func play(t *testing.T, text []byte) []byte {
	cryptotest.SetGlobalRandom(t, 1)
	s := &script{t: t}
	var out bytes.Buffer
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		line := lines.Text()
		if strings.HasPrefix(line, "\t") {
			continue // what it printed before
		}
		fmt.Fprintln(&out, line)
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(line, "#") {
			continue
		}
		s.line = line
		s.do(words[0], words[1:])
		for _, told := range s.told {
			fmt.Fprintf(&out, "\t%s\n", told)
		}
		s.told = nil
		if len(s.failed) > 0 {
			t.Fatalf("%q: %s\n%s", line, s.failed[0], out.Bytes())
		}
	}
	return out.Bytes()
}

func (s *script) do(command string, args []string) {
	s.t.Helper()
	if s.world == nil && command != "start" {
		s.t.Fatalf("%q before start", s.line)
	}
	switch command {
	case "start":
		s.start(args)
	case "tick":
		s.ticks(s.number(args[0]), nil)
	case "until":
		s.until(args)
	case "kill", "vanish":
		for _, p := range s.whoAll(args) {
			p.silent = command == "vanish"
			p.end("is killed")
		}
	case "stop":
		s.who(args[0]).halt()
	case "continue":
		s.who(args[0]).resume()
	case "cut", "mend":
		bar := slices.Index(args, "|")
		here, there := s.whoAll(args[:bar]), s.whoAll(args[bar+1:])
		if command == "cut" {
			s.sever(here, there)
		} else {
			s.mend(here, there)
		}
	case "slow":
		s.who(args[0]).slow = s.number(args[1])
	case "join":
		s.join(args[0], false, 1)
	case "leave":
		p := s.who(args[0])
		p.leaving = true
		p.core.Leave("had enough")
		p.collect()
	case "hold":
		s.holdBack(args)
	case "release", "lose":
		held := s.held
		s.hold, s.held = nil, nil
		for _, m := range held {
			if command == "release" {
				s.post(m)
			} else if from := s.procs[m.From]; !from.over {
				from.core.Unreachable(m.To)
			}
		}
	case "forget":
		for _, p := range s.whoAll(args) {
			p.disk = false
			p.readable()
		}
	case "recover":
		s.rescueBy(s.who(args[0]))
	case "ends":
		s.ends = true
	case "expect":
		s.expect(args)
	case "show":
		s.show()
	default:
		s.t.Fatalf("unknown command %q", s.line)
	}
}

func (s *script) start(args []string) {
	y := toy{seed: 1, micro: 4, steps: 20}
	for range 4 {
		y.ranges = append(y.ranges, place.Range{Size: 1 << 17})
	}
	set := setup{peers: s.number(args[0]), backups: 1}
	for i := 1; i < len(args); i += 2 {
		n := s.number(args[i+1])
		switch args[i] {
		case "backups":
			set.backups = n
		case "steps":
			y.steps = n
		case "browsers":
			set.browsers = n
		case "saves":
			set.saves, set.disks = n, true
		default:
			s.t.Fatalf("%q: what is %s?", s.line, args[i])
		}
	}
	s.world = newWorld(s.t, 1, y, set)
	s.setup.timing = LAN()
	s.setup.timing.LostAfter = 100
	s.given = 1
	s.open(s.person(1, "p1", false, 1), nil)
	for i := 1; i < set.peers; i++ { // one after another, so that p2 is member 2
		s.join(fmt.Sprintf("p%d", i+1), i >= set.peers-set.browsers, 1)
		s.wait("a member", func() bool { return len(s.ids) == i+1 })
	}
	s.told = nil
	s.wait("the first view", func() bool { return s.newest != nil })
}

func (s *script) number(word string) int {
	n, err := strconv.Atoi(word)
	if err != nil {
		s.t.Fatalf("%q: %v", s.line, err)
	}
	return n
}

// who finds a process that has not ended.
func (s *script) who(word string) *proc {
	s.t.Helper()
	for _, id := range s.ids {
		p := s.procs[id]
		leads := p.core.isLeader() && !p.over && p.runs()
		if !p.over && (word == "leader" && leads || word == "follower" && !leads || word == fmt.Sprint(id)) {
			return p
		}
	}
	s.t.Fatalf("%q: there is no %s", s.line, word)
	return nil
}

func (s *script) whoAll(words []string) (list []*proc) {
	s.t.Helper()
	for _, w := range words {
		list = append(list, s.who(w))
	}
	return list
}

func (s *script) wait(what string, so func() bool) {
	s.t.Helper()
	if !s.ticks(400, so) && !so() && len(s.failed) == 0 {
		s.show()
		s.t.Fatalf("%q: %s does not come:\n%s", s.line, what, strings.Join(s.told, "\n"))
	}
}

func (s *script) until(args []string) {
	s.t.Helper()
	n := 0
	if len(args) > 1 && args[0] != "voters" {
		n = s.number(args[1])
	}
	view := func() int {
		last := 0
		for _, m := range s.fences {
			if v := m.entry.View; v != nil {
				last = max(last, int(v.Number))
			}
		}
		return last
	}
	s.wait(strings.Join(args, " "), map[string]func() bool{
		"step": func() bool { return s.newest.step >= int64(n) },
		"view": func() bool { return view() >= n },
		"done": func() bool {
			return !slices.ContainsFunc(s.ids, func(id uint64) bool { return !s.procs[id].over })
		},
		"voters": func() bool {
			return strings.Join(args[1:], " ") == strings.Trim(fmt.Sprint(slices.Sorted(slices.Values(s.who("leader").core.Voters()))), "[]")
		},
	}[args[0]])
}

func (s *script) holdBack(args []string) {
	kinds := map[string]wire.ControlKind{"raft": wire.ControlRaft, "ready": wire.ControlReady, "beat": wire.ControlBeat}
	id := func(word string) uint64 {
		if word == "*" {
			return 0
		}
		return s.who(word).id
	}
	from, to, before := id(args[1]), id(args[2]), s.hold
	s.hold = func(m *Message) bool {
		return before != nil && before(m) ||
			(args[0] == "all" || m.Kind == kinds[args[0]]) && (from == 0 || m.From == from) && (to == 0 || m.To == to)
	}
}

func (s *script) expect(args []string) {
	s.t.Helper()
	ok := false
	switch args[0] {
	case "nothing":
		ok = len(s.told) == 0
	case "stuck":
		ok = s.who(args[1]).stuck != ""
	case "leader":
		ok = s.who("leader").id == s.who(args[1]).id
	case "view":
		var last *View
		fence := uint64(0)
		for f, m := range s.fences {
			if m.entry.View != nil && f > fence {
				last, fence = m.entry.View, f
			}
		}
		got := ""
		for _, m := range last.Members {
			got += fmt.Sprintf(" %d", m.ID)
		}
		ok = last.Number == uint64(s.number(args[1])) && got == " "+strings.Join(args[2:], " ")
	case "holds":
		p := s.who(args[1])
		ok = true
		for _, r := range args[2:] {
			_, has := p.en.shard[s.number(r)]
			ok = ok && has
		}
	}
	if !ok {
		s.show()
		s.t.Errorf("%q is not so:\n%s", s.line, strings.Join(s.told, "\n"))
	}
}

// show tells where everybody is.
func (s *script) show() {
	for _, id := range s.ids {
		p := s.procs[id]
		switch {
		case p.over:
			s.tell("%d has ended", id)
		case p.stopped:
			s.tell("%d is stopped", id)
		default:
			s.tell("%d: %s", id, p.describe())
		}
	}
}
