package status

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"shoal/internal/report"
)

// example is a run of four that has just lost a fifth.
func example() *Status {
	return &Status{
		Version: Version, RunID: "5f0c" + strings.Repeat("9a", 30), Name: "digits", Strategy: "fsdp", PID: 4242, Peer: "12D3KooWAAAAAAA1",
		Step: 120, Steps: 450, Loss: 1.23456, Samples: 7680, SamplesPerSecond: 312.4, Retries: 2,
		View: 7, Fence: 431, Applied: 431, Leader: "12D3KooWAAAAAAA1", Survives: 0, Redundancy: 0, Wanted: 1, Voters: 3,
		Members: []Member{
			{ID: 1, Peer: "12D3KooWAAAAAAA1", Kind: "daemon", Rank: 0, Voter: true, Owned: 3 << 20, BackedUp: 2 << 20, Micros: 10_400},
			{ID: 2, Peer: "12D3KooWAAAAAAA2", Kind: "daemon", Rank: 1, Voter: true, Owned: 3 << 20, BackedUp: 1 << 20, ToFill: 12, Micros: 9_870},
			{ID: 3, Peer: "12D3KooWAAAAAAA3", Kind: "daemon", Rank: 2, Voter: true, Owned: 2 << 20, BackedUp: 3 << 20, Micros: -1},
			{ID: 9, Peer: "12D3KooWAAAAAAA9", Kind: "browser", Rank: -1},
		},
		Phase: "gather", Unit: 3, Waiting: []string{"12D3KooWAAAAAAA3"},
		Faults: []Fault{{Peer: "12D3KooWAAAAAAA4", Reason: "peer …AAAAAAA4 (rank 2) was lost", Fence: 300, Seconds: 4000},
			{Peer: "12D3KooWAAAAAAA5", Reason: "its program has ended", Fence: 431, Seconds: 3}},
		Traffic: []Traffic{{Class: "parameters", Codec: "raw", Sent: 5, Received: 6}}, Streams: 12, Connections: 3,
		Relaying: Relaying{Circuits: 1, Peers: 2, Bytes: 12 << 20, MostCircuits: 64, MostPeers: 64},
	}
}

// The documentation shows what a user sees.
func TestWrite(t *testing.T) {
	var b bytes.Buffer
	if err := example().Write(&b); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "status.md"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(text, []byte("```\n"+b.String()+"```\n")) {
		t.Errorf("docs/status.md does not show\n%s", b.String())
	}
}

// Whatever is in it, no line is longer than a terminal is wide, and nothing that another peer has said reaches the
// terminal as anything but text.
func TestWriteIsBounded(t *testing.T) {
	s := example()
	long := strings.Repeat("x", 300) + "\x1b[2J\n" + strings.Repeat("word ", 100)
	s.Name, s.RunID, s.Peer, s.Stuck, s.Phase, s.Leader = long, long, long, long, long, ""
	s.Step, s.Steps, s.Loss, s.Retries, s.View, s.Fence = 1e9, 1e9, -1e9, 1e9, math.MaxUint64, math.MaxUint64
	s.Generation = math.MaxUint64
	s.Relaying = Relaying{1e9, 1e9, 1 << 60, 1e9, 1e9}
	for i := range s.Members {
		m := &s.Members[i]
		m.Peer, m.Kind, m.Owned, m.BackedUp, m.ToFill, m.Micros = long, long, 1<<53, 1<<53, 999, 1e9
	}
	s.Waiting = []string{long, long, long, long, long, long, long, long}
	s.Faults = []Fault{{Peer: long, Reason: long, Seconds: 1e8}, {}}
	var b bytes.Buffer
	if err := s.Write(&b); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(b.String()) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > width {
			t.Errorf("%d columns: %s", n, line)
		}
		if strings.ContainsAny(line, "\x1b\r") {
			t.Errorf("control characters: %q", line)
		}
	}
	var empty Status
	b.Reset()
	if err := empty.Write(&b); err != nil || !strings.Contains(b.String(), "there is no other peer") {
		t.Errorf("an empty status: %v\n%s", err, b.String())
	}
}

func TestSurvival(t *testing.T) {
	for _, c := range []struct {
		peers, voters, redundancy, wanted, fills, survives int
		want                                               string
	}{
		{1, 1, 0, 1, 0, 0, "no death: there is no other peer"},
		{2, 1, 1, 1, 0, 0, "not the death of …AAAAAAA0, the one voter, which fewer than 3 daemons have; of the others any one may die: there are 2 peers"},
		{4, 1, 2, 2, 0, 0, "not the death of …AAAAAAA0, the one voter, which fewer than 3 daemons have; of the others any 2 may die: mesh.backups is 2"},
		{3, 3, 0, 0, 0, 0, "no death: mesh.backups is 0"},
		{3, 3, 0, 1, 5, 0, "no death: backups are being made, 5 ranges to go"},
		{3, 3, 0, 1, 1, 0, "no death: backups are being made, 1 range to go"},
		{3, 3, 0, 1, 0, 0, "no death: some shards have 0 of 1 backups"},
		{3, 3, 1, 1, 0, 1, "any 1 death: mesh.backups is 1, and the log has 3 voters, 5 take 5 daemons"},
		{5, 5, 1, 1, 0, 1, "any 1 death: mesh.backups is 1"},
		{5, 3, 2, 2, 0, 1, "any 1 death: the log has 3 voters, 5 take 5 daemons"},
		{5, 5, 2, 2, 0, 2, "any 2 deaths at once: mesh.backups is 2, and the log has 5 voters"},
		{5, 5, 4, 4, 0, 2, "any 2 deaths at once: the log has 5 voters"},
		{3, 5, 2, 8, 0, 2, "any 2 deaths at once: there are 3 peers, and the log has 5 voters"},
	} {
		s := &Status{Voters: c.voters, Redundancy: c.redundancy, Wanted: c.wanted, Survives: c.survives}
		for r := range c.peers {
			s.Members = append(s.Members, Member{Rank: r, Voter: r < c.voters, Peer: "12D3KooWAAAAAAA" + string(rune('0'+r))})
		}
		s.Members[0].ToFill = c.fills
		if got := s.Survival(); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

func TestData(t *testing.T) {
	s := &Status{Members: []Member{{Peer: "12D3KooWAAAAAAA1"}, {Peer: "12D3KooWAAAAAAA2"}, {Peer: "12D3KooWAAAAAAA3"}}}
	for files, want := range []string{"no peer has all of it", "of 3 peers only …AAAAAAA1 has all of it", "2 of 3 peers have all of it"} {
		if got := s.Data(); got != "" {
			t.Errorf("without files: %q", got)
		}
		s.Files = true
		if files > 0 {
			s.Members[files-1].Data = true
		}
		if got := s.Data(); !strings.HasPrefix(got, want) {
			t.Errorf("%d have them: %q, want %q", files, got, want)
		}
		s.Files = false
	}
}

func TestSurvivalWhenStuck(t *testing.T) {
	s := &Status{Stuck: "a voter is away", Voters: 3, Redundancy: 1, Members: make([]Member, 3)}
	if got := s.Survival(); got != "no death: the run waits already" {
		t.Errorf("it is %q", got)
	}
}

func TestSort(t *testing.T) {
	m := []Member{{ID: 5, Rank: -1}, {ID: 4, Rank: 1}, {ID: 2, Rank: -1}, {ID: 9, Rank: 0}}
	Sort(m)
	if want := []Member{{ID: 9, Rank: 0}, {ID: 4, Rank: 1}, {ID: 2, Rank: -1}, {ID: 5, Rank: -1}}; !reflect.DeepEqual(m, want) {
		t.Errorf("order is %+v", m)
	}
}

// The JSON form comes back as it was, also a loss that is no number.
func TestJSON(t *testing.T) {
	s := example()
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	var got Status
	if err := json.Unmarshal(text, &got); err != nil || !reflect.DeepEqual(&got, s) {
		t.Errorf("%+v, %v comes back from\n%s", got, err, text)
	}
	s.Loss = report.Number(math.NaN())
	if text, err = json.Marshal(s); err != nil || !bytes.Contains(text, []byte(`"loss":null`)) {
		t.Errorf("%s, %v", text, err)
	}
}

// docs/status.md has a row for each field.
func TestDocumentation(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "status.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, of := range []reflect.Type{reflect.TypeFor[Status](), reflect.TypeFor[Member](), reflect.TypeFor[Fault](), reflect.TypeFor[Traffic](), reflect.TypeFor[Relaying]()} {
		for i := range of.NumField() {
			if name := of.Field(i).Tag.Get("json"); !bytes.Contains(text, []byte("\n| `"+name+"` |")) {
				t.Errorf("docs/status.md has no row for %s of %s", name, of.Name())
			}
		}
	}
}
