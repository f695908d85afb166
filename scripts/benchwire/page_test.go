package main

import (
	"strings"
	"testing"
)

func TestTables(t *testing.T) {
	o := &outcome{rounds: 3, elements: 10_000_000, torch: "2.15.0",
		members: side{seconds: []float64{0.2, 0.1, 0.3}}, gloo: side{seconds: []float64{0.1, 0.1, 0.1}},
		near: pair{bytes: 1e9, shoal: side{seconds: []float64{2, 2, 2}}, tcp: side{seconds: []float64{1, 1, 1}}, cpu: []float64{1, 1, 1}, tcpCPU: []float64{0.5, 0.5, 0.5}},
		far:  pair{bytes: 1e8, shoal: side{seconds: []float64{2, 2, 2}}, tcp: side{seconds: []float64{1, 1, 1}}},
	}
	text, err := tables(o)
	for _, want := range []string{
		"4 processes, 40 MB:", "| 200 ms | 100 ms | 2.00 | 2 | met |",
		"| this machine | 500 | 1000 | 0.50 | 0.45 | 1.00 | 0.50 | met |",
		"| 100 ms, 1 Gbit/s | 50 | 100 | 0.50 | 0.95 |  |  | **missed** |",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if err == nil || err.Error() != "one stream, 100 ms, 1 Gbit/s, of TCP: 0.50" {
		t.Errorf("missed: %v", err)
	}
}
