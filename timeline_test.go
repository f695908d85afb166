package shoal

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"shoal/fsdp"
	"shoal/internal/report"
	"shoal/swarm/wire"
)

// TestTimesInReport: each peer's row tells where its time went, and what it did in one step. Under fp32 work is dealt
// evenly, so that the others wait for a slow peer.
func TestTimesInReport(t *testing.T) {
	ids := make([]string, 2)
	reports := together(t, peers(2, func(i int, c *Config) {
		if i == 0 {
			c.RunFile.Precision.Reduce, c.Slow = "fp32", 30
		}
		c.OnSelf = func(id string) { ids[i] = id }
	})...)
	rows := map[string]*report.Peer{}
	for i := range reports[1].Peers {
		rows[reports[1].Peers[i].PeerID] = &reports[1].Peers[i]
	}
	for i, id := range ids {
		p := rows[id]
		if p == nil {
			t.Fatalf("no row of %s in %+v", id, rows)
		}
		if got, want := p.FirstMS+p.TimeMS.Sum(), 1000*reports[i].WallSeconds; p.Steps != 29 || math.Abs(got-want) > 0.01 {
			t.Errorf("peer %d: %d steps, %v ms in %+v and the first one, want 29 and %v ms", i, p.Steps, got, p.TimeMS, want)
		}
		kinds := map[string]int{}
		for _, s := range p.Timeline {
			kinds[s.Kind]++
		}
		if kinds[string(fsdp.TraceUpdate)] != 4 || kinds[string(fsdp.TraceCommit)] != 1 || reports[i].TimelineStep != 25 {
			t.Errorf("peer %d: step %d has the events %v", i, reports[i].TimelineStep, kinds)
		}
	}
	slow, waits := rows[ids[0]].TimeMS, rows[ids[1]].TimeMS
	if slow.Compute < 2*waits.Compute {
		t.Errorf("the slow peer computed for %v ms, the other one for %v ms", slow.Compute, waits.Compute)
	}
	if waits.Parameters+waits.Reduce < slow.Parameters+slow.Reduce+slow.Compute/4 {
		t.Errorf("the peer that waits spent %+v, the slow one %+v", waits, slow)
	}
}

// TestRowsFit: the rows of as many peers as there can be, with long timelines, fit into the entry that ends a run.
func TestRowsFit(t *testing.T) {
	events := make([]fsdp.Event, fsdp.MaxEvents)
	for i := range events {
		events[i] = fsdp.Event{Kind: fsdp.TraceBackward, Unit: 1000, Start: 99999*time.Second + 123456789, End: 99999*time.Second + 987654321}
	}
	row, err := json.Marshal(report.Peer{Timeline: report.NewTimeline(events)})
	if err != nil {
		t.Fatal(err)
	}
	if all := MaxPeers * len(row); all > wire.MaxPayload/2 {
		t.Errorf("%d rows of %d bytes, an entry may have %d", MaxPeers, len(row), wire.MaxPayload)
	}
}
