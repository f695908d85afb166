//go:build !js

package metrics

import (
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"shoal/internal/report"
	"shoal/internal/status"
)

func example() status.Status {
	return status.Status{
		RunID: "5f0c", Name: "digits", Peer: "me", Step: 120, Steps: 450, Loss: 1.25, Samples: 7680, SamplesPerSecond: 312.5, Retries: 2,
		View: 7, Applied: 431, Leader: "me", Survives: 1, Redundancy: 1, Wanted: 2, Voters: 3, Streams: 12, Connections: 3,
		Members: []status.Member{{Peer: "other", Rank: 0, ToFill: 4}, {Peer: "me", Rank: 1, Owned: 300, BackedUp: 200, ToFill: 5}, {Peer: "new", Rank: -1}},
		Waiting: []string{"other"}, Stuck: "a voter is away",
		Faults:  []status.Fault{{Peer: "x", Fence: 300}, {Peer: "y", Fence: 300}, {Peer: "z", Fence: 400}},
		Traffic: []status.Traffic{{Class: "parameters", Codec: "packed", Sent: 5, Received: 6}, {Class: "control", Sent: 7, Received: 8}},
	}
}

func serve(t *testing.T) *Exporter {
	t.Helper()
	e, err := Serve("127.0.0.1:0", "v1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

func get(t *testing.T, url string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	a, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	if err != nil || a.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v", url, a.Status, err)
	}
	return string(text)
}

func TestScrape(t *testing.T) {
	e := serve(t)
	if text := get(t, e.URL()); strings.Contains(text, "shoal_step") || !strings.Contains(text, `shoal_build_info{version="v1"} 1`) {
		t.Errorf("before the run there is\n%s", text)
	}
	e.Run(example)
	e.Phase("gather", 3*time.Millisecond)
	e.Phase("gather", time.Hour)
	text := get(t, e.URL())
	for _, want := range []string{
		`shoal_run_info{name="digits",peer="me",run_id="5f0c"} 1`,
		"shoal_step 120", "shoal_steps 450", "shoal_loss 1.25", "shoal_samples_total 7680", "shoal_samples_per_second 312.5", "shoal_retries_total 2",
		"shoal_view 7", "shoal_generation 0", "shoal_applied_entries 431", "shoal_members 2", "shoal_voters 3", "shoal_leader 1",
		"shoal_survivable_deaths 1", "shoal_redundancy 1", "shoal_redundancy_wanted 2", "shoal_fills_left 9", "shoal_waiting_for_peers 1", "shoal_stuck 1",
		"shoal_owned_bytes 300", "shoal_backed_up_bytes 200", "shoal_open_streams 12", "shoal_open_connections 3", "shoal_faults_total 3",
		`shoal_bytes_total{class="parameters",codec="packed",direction="sent"} 5`, `shoal_bytes_total{class="parameters",codec="packed",direction="received"} 6`,
		`shoal_bytes_total{class="control",codec="",direction="received"} 8`,
		`shoal_phase_seconds_bucket{phase="gather",le="0.008"} 1`, `shoal_phase_seconds_count{phase="gather"} 2`, `shoal_phase_seconds_sum{phase="gather"} 3600.003`,
		"go_goroutines ",
	} {
		if !strings.Contains(text, "\n"+want) {
			t.Errorf("%s is missing in\n%s", want, text)
		}
	}
	s := example()
	s.Loss, s.Leader, s.Stuck, s.Members = report.Number(math.NaN()), "", "", nil
	e.Run(func() status.Status { return s })
	text = get(t, e.URL())
	if strings.Contains(text, "\nshoal_loss") || !strings.Contains(text, "\nshoal_leader 0") || !strings.Contains(text, "\nshoal_stuck 0") || !strings.Contains(text, "\nshoal_owned_bytes 0") {
		t.Errorf("of a peer that is no member there is\n%s", text)
	}
}

// Faults that have left the status are still counted, and none is counted twice.
func TestFaults(t *testing.T) {
	var c faultCounter
	for _, s := range []struct {
		fences []uint64
		want   int
	}{{nil, 0}, {[]uint64{5, 5}, 2}, {[]uint64{5, 5}, 2}, {[]uint64{5, 9}, 3}, {[]uint64{9, 11, 12}, 5}, {nil, 5}} {
		var faults []status.Fault
		for _, f := range s.fences {
			faults = append(faults, status.Fault{Fence: f})
		}
		if got := c.add(faults); got != s.want {
			t.Errorf("after %v it has counted %d, want %d", s.fences, got, s.want)
		}
	}
}

// Names, units and help texts are as Prometheus wants them, and as the documentation has them.
func TestConventions(t *testing.T) {
	e := newExporter("v1")
	e.Run(example)
	e.Phase("gather", time.Second)
	families, err := e.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		if strings.HasPrefix(p.Metric, "shoal_") {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
	doc, err := os.ReadFile(filepath.Join("..", "..", "docs", "metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "shoal_") {
			continue
		}
		rows++
		row := fmt.Sprintf("\n| `%s` | %s | %s |\n", f.GetName(), strings.ToLower(f.GetType().String()), f.GetHelp())
		if !strings.Contains(string(doc), row) {
			t.Errorf("docs/metrics.md lacks the row%s", row)
		}
	}
	if n := strings.Count(string(doc), "\n| `shoal_"); n != rows {
		t.Errorf("docs/metrics.md has %d metrics, there are %d", n, rows)
	}
}

func TestWrongAddress(t *testing.T) {
	e := serve(t)
	used := strings.TrimSuffix(strings.TrimPrefix(e.URL(), "http://"), path)
	for _, addr := range []string{used, "127.0.0.1", "127.0.0.1:99999", "nonsense", ":x"} {
		if e, err := Serve(addr, ""); err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v", addr, err)
			if err == nil {
				e.Close()
			}
		}
	}
}

// Readers, phases and a change of run don't disturb one another.
func TestAtOnce(t *testing.T) {
	e := newExporter("v1")
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 20 {
				e.Run(example)
				e.Phase("forward", time.Millisecond)
				if _, err := e.registry.Gather(); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
}
