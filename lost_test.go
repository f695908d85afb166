package shoal

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"time"

	"shoal/fsdp"
	"shoal/swarm"
)

// A member that goes when it has taken everybody's gradients but not given all of its own leaves no stream to break: the
// others wait for nothing but what will never come, and must hear from the log that the run is over.
func TestLostBeforeItsLastGradient(t *testing.T) {
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
	roots := 0
	second := Config{Memory: 1 << 30, Cores: 1, Listen: first.Listen, Trace: func(e fsdp.Event) {
		if e.Kind != fsdp.TraceBackward || e.Step != step || e.Unit != 0 {
			return
		}
		if roots++; roots == 2 { // the head's, and now the embedding's: the root's gradient would go next
			<-given
			runtime.Goexit()
		}
	}}
	var wg sync.WaitGroup
	wg.Go(func() {
		second.Link = <-link
		Run(ctx, second)
	})
	_, err := Run(ctx, first)
	var stopped *swarm.StoppedError
	if !errors.As(err, &stopped) || stopped.Rank != 1 {
		t.Errorf("rank 0 ended with %v, want the loss of rank 1", err)
	}
	wg.Wait()
}
