package shoal

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"shoal/fsdp"
)

// A peer whose computing hangs, while its heart beats, is passed over at the first deadline and removed at the second. The
// others come to the same end; it hears that it is out.
func TestHangs(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for two deadlines")
	}
	for name, at := range map[string]func(fsdp.Point) bool{
		"in its forward pass":          func(p fsdp.Point) bool { return p.Phase == fsdp.PhaseForward },
		"before it gives its last sum": func(p fsdp.Point) bool { return p.Phase == fsdp.PhaseReduce && p.Unit == 0 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hangs(t, at)
		})
	}
}

// hangs has one of three peers hang from some step on, at a point.
func hangs(t *testing.T, at func(fsdp.Point) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	over := make(chan struct{}) // ends the hanging
	var once sync.Once
	end := func() { once.Do(func() { close(over) }) }
	defer end()
	link := make(chan string, 2)
	reports, errs := make([]*Report, 2), make([]error, 2)
	var others, hanging sync.WaitGroup
	for i, cfg := range peers(2, nil) {
		cfg.Listen, cfg.Slow = []string{"127.0.0.1:0"}, 32 // so that the third one always has something to compute
		others.Go(func() {
			if i == 0 {
				cfg.Peers = 3
				cfg.OnLink = func(l string) { link <- l; link <- l }
			} else {
				cfg.Link = <-link
			}
			reports[i], errs[i] = Run(ctx, cfg)
		})
	}
	hung := false
	hanging.Go(func() {
		cfg := Config{Link: <-link, Memory: 1 << 30, Cores: 1, Listen: []string{"127.0.0.1:0"}, At: func(p fsdp.Point) {
			if p.Step >= 3 && at(p) {
				hung = true
				<-over
			}
		}}
		Run(ctx, cfg)
	})
	others.Wait()
	end()
	cancel()
	hanging.Wait()
	for i, r := range reports {
		if errs[i] != nil {
			t.Fatal(errs[i])
		}
		if r.StateHash != golden(t) || len(r.Views) != 2 || !strings.Contains(r.Views[1].Reason, "held the others up") {
			t.Errorf("state %s, views %+v, want %s after the third peer was removed", r.StateHash, r.Views, golden(t))
		}
	}
	if !hung {
		t.Error("it never hung")
	}
}
