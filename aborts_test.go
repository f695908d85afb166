package shoal

import (
	"context"
	"flag"
	"runtime"
	"runtime/debug"
	"sync"
	"testing"
	"time"

	"shoal/fsdp"
	"shoal/internal/sysinfo"
	"shoal/peer"
)

var aborts = flag.Int("aborts", 30, "how many attempts TestAbortedAttempts has peers abort by their death")

// use is what this process uses.
type use struct {
	heap, rss  int64
	goroutines int
}

// used waits, but not for ever, until no more than so many goroutines are left: libp2p closes hosts in the background.
func used(goroutines int) use {
	deadline, tick := time.After(30*time.Second), time.NewTicker(100*time.Millisecond)
	defer tick.Stop()
	for late := false; !late && runtime.NumGoroutine() > goroutines; {
		select {
		case <-tick.C:
		case <-deadline:
			late = true
		}
	}
	debug.FreeOSMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return use{int64(m.HeapAlloc), sysinfo.RSS(), runtime.NumGoroutine()}
}

// TestAbortedAttempts: again and again a third peer joins two others, with a host and streams of its own, and dies in the
// middle of a step, at another point each time. What the process uses stays the same, but for what it keeps of every host
// that it ever had (libp2p makes types for each), which is measured with hosts that do nothing.
func TestAbortedAttempts(t *testing.T) {
	if testing.Short() {
		t.Skip("makes many peers")
	}
	hostBytes(t, 5)
	hosts := hostBytes(t, 20)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
	run := small()
	run.Train.Steps, run.Data.Eval = 1<<20, 0
	link := make(chan string, 1)
	views := make(chan int, 1)
	listen := []string{"127.0.0.1:0"}
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	lost := 0
	wg.Go(func() {
		defer close(views)
		Run(ctx, Config{RunFile: run, Peers: 2, Memory: 1 << 30, Cores: 1, Listen: listen, OnLink: func(l string) { link <- l },
			Progress: func(p Progress) {
				select {
				case <-views:
				default:
				}
				views <- p.Peers
			}})
	})
	by := <-link
	wg.Go(func() { Run(ctx, Config{Link: by, Memory: 1 << 30, Cores: 1, Listen: listen}) })

	phases := []string{fsdp.PhaseGather, fsdp.PhaseForward, fsdp.PhaseBackward, fsdp.PhaseReduce, fsdp.PhaseReady}
	warm := *aborts / 5
	for n := range views { // the run has begun
		if n == 2 {
			break
		}
	}
	idle := runtime.NumGoroutine()
	var before, after use
	for i := range *aborts {
		if i == warm {
			before = used(idle + 20)
		}
		if die(ctx, by, phases[i%len(phases)], i/len(phases)%4) {
			lost++
		}
		for n := range views { // the two go on
			if n == 2 {
				break
			}
		}
		if ctx.Err() != nil {
			t.Fatal(context.Cause(ctx))
		}
	}
	n := *aborts - warm
	after = used(before.goroutines)
	if lost != *aborts {
		t.Errorf("%d of %d peers died in a step", lost, *aborts)
	}
	grown := (after.heap - before.heap) / int64(n)
	t.Logf("after %d aborted attempts %+v, after %d %+v: the heap grew by %d bytes an attempt, by %d for a host that does nothing", warm, before, *aborts, after, grown, hosts)
	if slack := 16 << 20 / int64(n); grown-hosts > slack {
		t.Errorf("an aborted attempt leaves %d bytes behind, want at most %d", grown-hosts, slack)
	}
	if after.goroutines-before.goroutines > n/2 {
		t.Errorf("%d goroutines after %d aborted attempts, %d after %d, %d before the first", after.goroutines, *aborts, before.goroutines, warm, idle)
	}
}

// die joins a run and is gone when it has come to a phase once more than so many times; it says whether it was.
func die(ctx context.Context, link, phase string, times int) (died bool) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		Run(context.WithoutCancel(ctx), Config{Link: link, Memory: 1 << 30, Cores: 1, Listen: []string{"127.0.0.1:0"}, At: func(p fsdp.Point) {
			if p.Phase != phase {
				return
			}
			if times--; times < 0 || ctx.Err() != nil {
				died = true
				runtime.Goexit()
			}
		}})
	}()
	<-done
	return died
}

// hostBytes is how much more the heap has for each host that was ever opened.
func hostBytes(t *testing.T, n int64) int64 {
	t.Helper()
	before := used(runtime.NumGoroutine())
	for range n {
		h, err := peer.New(t.Context(), peer.Config{Listen: []string{"127.0.0.1:0"}})
		if err != nil {
			t.Fatal(err)
		}
		if err := h.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return max(0, used(before.goroutines).heap-before.heap) / n
}
