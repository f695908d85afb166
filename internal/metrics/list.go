package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"shoal/internal/status"
)

// metric is one number of a status.
type metric struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(*status.Status) float64
}

var (
	runInfo = describe("shoal_run_info", "1, with the run and this peer as labels.", "run_id", "name", "peer")
	// A counter of its own, since a status has the last faults only.
	faultsTotal = describe("shoal_faults_total", "Peers that were taken out of the run, as far as this peer knows.")
	bytesTotal  = describe("shoal_bytes_total", "Bytes on the network since this peer is there.", "class", "codec", "direction")
)

// fromStatus are the metrics that are one number. A value that is no number is left out.
var fromStatus = []metric{
	gauge("shoal_step", "Step that was committed last, from 1.", func(s *status.Status) float64 { return float64(s.Step) }),
	gauge("shoal_steps", "Steps of the whole run.", func(s *status.Status) float64 { return float64(s.Steps) }),
	gauge("shoal_loss", "Mean loss of the step that was committed last; missing while it is not finite.",
		func(s *status.Status) float64 { return float64(s.Loss) }),
	counter("shoal_samples_total", "Samples of the committed steps.", func(s *status.Status) float64 { return float64(s.Samples) }),
	gauge("shoal_samples_per_second", "Samples per second of the whole run over the last ten seconds.",
		func(s *status.Status) float64 { return s.SamplesPerSecond }),
	counter("shoal_retries_total", "Attempts that were begun again with other exponents, since this peer is there.",
		func(s *status.Status) float64 { return float64(s.Retries) }),

	gauge("shoal_view", "Number of the view.", func(s *status.Status) float64 { return float64(s.View) }),
	gauge("shoal_generation", "Generation of the log: how often the run was recovered.", func(s *status.Status) float64 { return float64(s.Generation) }),
	gauge("shoal_applied_entries", "Entries of the log that this peer has applied.", func(s *status.Status) float64 { return float64(s.Applied) }),
	gauge("shoal_members", "Peers in the view.", func(s *status.Status) float64 { return float64(s.InView()) }),
	gauge("shoal_voters", "Daemons that keep the log.", func(s *status.Status) float64 { return float64(s.Voters) }),
	gauge("shoal_leader", "1 if this peer leads the log.", func(s *status.Status) float64 { return truth(s.Leader != "" && s.Leader == s.Peer) }),
	gauge("shoal_survivable_deaths", "Peers that may vanish at the same instant, whichever they are.",
		func(s *status.Status) float64 { return float64(s.Survives) }),
	gauge("shoal_redundancy", "Further peers that keep each shard, at least.", func(s *status.Status) float64 { return float64(s.Redundancy) }),
	gauge("shoal_redundancy_wanted", "Further peers that should keep each shard.", func(s *status.Status) float64 { return float64(s.Wanted) }),
	gauge("shoal_fills_left", "Ranges that members are still to get.", func(s *status.Status) float64 { return float64(s.ToFill()) }),
	gauge("shoal_waiting_for_peers", "Peers that this one waits for.", func(s *status.Status) float64 { return float64(len(s.Waiting)) }),
	gauge("shoal_stuck", "1 while the run can't go on.", func(s *status.Status) float64 { return truth(s.Stuck != "") }),

	gauge("shoal_owned_bytes", "Bytes of parameters and optimizer state that this peer owns.",
		func(s *status.Status) float64 { return float64(own(s).Owned) }),
	gauge("shoal_backed_up_bytes", "Bytes of parameters and optimizer state that this peer keeps for others.",
		func(s *status.Status) float64 { return float64(own(s).BackedUp) }),
	gauge("shoal_open_streams", "Open libp2p streams.", func(s *status.Status) float64 { return float64(s.Streams) }),
	gauge("shoal_open_connections", "Open connections to other peers.", func(s *status.Status) float64 { return float64(s.Connections) }),
}

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

func gauge(name, help string, value func(*status.Status) float64) metric {
	return metric{describe(name, help), prometheus.GaugeValue, value}
}

func counter(name, help string, value func(*status.Status) float64) metric {
	return metric{describe(name, help), prometheus.CounterValue, value}
}

// own is this peer's row; zero before it is a member.
func own(s *status.Status) status.Member {
	for _, m := range s.Members {
		if m.Peer == s.Peer {
			return m
		}
	}
	return status.Member{}
}

func truth(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
