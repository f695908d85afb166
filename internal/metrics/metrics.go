// Package metrics shows a run to Prometheus. docs/metrics.md has every metric.
package metrics

import (
	"fmt"
	"math"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"shoal/internal/status"
)

const (
	path       = "/metrics"
	headerTime = 5 * time.Second
)

// Exporter serves the metrics of this process's run. Its methods may be called from any goroutine.
type Exporter struct {
	registry *prometheus.Registry
	phases   *prometheus.HistogramVec
	listener net.Listener
	http     http.Server
	served   sync.WaitGroup

	mu     sync.Mutex
	source func() status.Status // nil until the run is there
	faults faultCounter
}

// Serve listens on addr (host:port) and serves /metrics there.
func Serve(addr, version string) (*Exporter, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, err
	}
	e := newExporter(version)
	e.listener = l
	mux := http.NewServeMux()
	mux.Handle("GET "+path, promhttp.HandlerFor(e.registry, promhttp.HandlerOpts{}))
	e.http = http.Server{Handler: mux, ReadHeaderTimeout: headerTime, ReadTimeout: headerTime}
	e.served.Go(func() { e.http.Serve(l) }) // ends with Close
	return e, nil
}

func newExporter(version string) *Exporter {
	e := &Exporter{registry: prometheus.NewRegistry()}
	e.phases = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "shoal_phase_seconds", Help: "Time of one unit, or of all, in one phase of a step.",
		Buckets: prometheus.ExponentialBuckets(0.0005, 4, 9), // 0.5 ms to 33 s
	}, []string{"phase"})
	build := prometheus.NewGauge(prometheus.GaugeOpts{Name: "shoal_build_info", Help: "1, with the program's version as a label.",
		ConstLabels: prometheus.Labels{"version": version}})
	build.Set(1)
	e.registry.MustRegister(e.phases, build, e, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return e
}

// URL is where the metrics are.
func (e *Exporter) URL() string { return fmt.Sprintf("http://%s%s", e.listener.Addr(), path) }

// Run begins to show the run that source tells of.
func (e *Exporter) Run(source func() status.Status) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.source = source
}

// Phase takes note of how long a unit was in a phase.
func (e *Exporter) Phase(name string, d time.Duration) {
	e.phases.WithLabelValues(name).Observe(d.Seconds())
}

// Close ends the listener. What is being read is cut short.
func (e *Exporter) Close() error {
	err := e.http.Close()
	e.served.Wait()
	return err
}

// faultCounter counts faults, of which a status has only the last ones.
type faultCounter struct {
	total int
	last  uint64 // fence of the newest one that was counted
}

// add counts those that are new. Faults of one fence are there together or not at all.
func (c *faultCounter) add(faults []status.Fault) int {
	newest := c.last
	for _, f := range faults {
		if f.Fence > c.last {
			c.total++
			newest = max(newest, f.Fence)
		}
	}
	c.last = newest
	return c.total
}

// Describe says nothing: what there is depends on the run.
func (e *Exporter) Describe(chan<- *prometheus.Desc) {}

// Collect reads the run's status once for all metrics.
func (e *Exporter) Collect(out chan<- prometheus.Metric) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.source == nil {
		return
	}
	s := e.source()
	labels := []string{s.RunID, s.Name, s.Peer}
	out <- prometheus.MustNewConstMetric(runInfo, prometheus.GaugeValue, 1, labels...)
	for _, m := range fromStatus {
		if v := m.value(&s); !math.IsNaN(v) {
			out <- prometheus.MustNewConstMetric(m.desc, m.kind, v)
		}
	}
	out <- prometheus.MustNewConstMetric(faultsTotal, prometheus.CounterValue, float64(e.faults.add(s.Faults)))
	for _, t := range s.Traffic {
		out <- prometheus.MustNewConstMetric(bytesTotal, prometheus.CounterValue, float64(t.Sent), t.Class, t.Codec, "sent")
		out <- prometheus.MustNewConstMetric(bytesTotal, prometheus.CounterValue, float64(t.Received), t.Class, t.Codec, "received")
	}
}
