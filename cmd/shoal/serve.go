package main

import (
	"fmt"
	"sync"

	"shoal"
	"shoal/fsdp"
	"shoal/internal/live"
	"shoal/internal/metrics"
	"shoal/internal/version"
)

// observe lets others see the run that cfg takes part in while it lasts: this user's other processes, and whoever reads
// metrics at the address metricsAt, unless that is empty. end must be called when the run is over.
func observe(cfg *shoal.Config, metricsAt string) (end func(), err error) {
	notice := func(text string) {
		if cfg.OnNotice != nil {
			cfg.OnNotice(text)
		}
	}
	var exporter *metrics.Exporter
	if metricsAt != "" {
		if exporter, err = metrics.Serve(metricsAt, version.Version); err != nil {
			return nil, wrongInput{fmt.Errorf("--metrics: %w: give an address of this machine with a free port, as in 127.0.0.1:9464", err)}
		}
		notice("metrics are at " + exporter.URL())
		traced := cfg.Trace
		cfg.Trace = func(e fsdp.Event) {
			exporter.Phase(string(e.Kind), e.End-e.Start)
			if traced != nil {
				traced(e)
			}
		}
	}
	var mu sync.Mutex
	var server *live.Server
	begun := cfg.OnLive
	cfg.OnLive = func(l *shoal.Live) {
		if begun != nil {
			begun(l)
		}
		if exporter != nil {
			exporter.Run(l.Status)
		}
		s, err := live.Serve(l)
		if err != nil {
			notice(fmt.Sprintf("`shoal status` won't find this process: %v", err))
			return
		}
		mu.Lock()
		defer mu.Unlock()
		server = s
	}
	return func() {
		if exporter != nil {
			exporter.Close()
		}
		mu.Lock()
		defer mu.Unlock()
		if server != nil {
			server.Close()
			server = nil
		}
	}, nil
}
