package shoal

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"time"

	"shoal/fsdp"
)

// A member that goes when it has taken everybody's gradients but not given all of its own leaves no stream to break: the
// others wait for nothing but what will never come, and must hear from the log that it is gone. They come to the same end.
func TestLostBeforeItsLastGradient(t *testing.T) {
	for range 3 {
		if lostBeforeItsLastGradient(t) {
			return
		}
	}
	t.Error("the other one was passed over three times, rather than lost")
}

// lostBeforeItsLastGradient is false if the first member went on without the other one, as it may when that one gets no time to
// compute.
func lostBeforeItsLastGradient(t *testing.T) bool {
	t.Helper()
	const step = 2
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	link := make(chan string, 1)
	given := make(chan struct{}) // rank 0 waits for gradients alone
	var mu sync.Mutex
	reduced := 0
	first := Config{RunFile: small(), Memory: 1 << 30, Cores: 1, Peers: 2, Listen: []string{"/ip4/127.0.0.1/tcp/0"},
		OnLink: func(l string) { link <- l },
		Trace: func(e fsdp.Event) {
			mu.Lock()
			defer mu.Unlock()
			if e.Kind == fsdp.TraceReduce && e.Step == step {
				if reduced++; reduced == small().Model.Depth+1 {
					close(given)
				}
			}
		}}
	roots, over := 0, make(chan struct{})
	second := Config{Memory: 1 << 30, Cores: 1, Listen: first.Listen, Trace: func(e fsdp.Event) {
		if e.Kind != fsdp.TraceBackward || e.Step != step || e.Unit != 0 {
			return
		}
		if roots++; roots == 2 { // the head's, and now the embedding's: the root's gradient would go next
			select {
			case <-given:
			case <-over:
			}
			runtime.Goexit()
		}
	}}
	var wg sync.WaitGroup
	wg.Go(func() {
		second.Link = <-link
		Run(ctx, second)
	})
	r, err := Run(ctx, first)
	close(over)
	wg.Wait()
	if err != nil {
		t.Fatal(err)
	}
	if want := golden(t); r.StateHash != want {
		t.Errorf("state %s after %d views, want %s", r.StateHash, len(r.Views), want)
	}
	return len(r.Views) == 2
}
