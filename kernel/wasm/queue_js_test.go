package wasm

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"syscall/js"
	"testing"
	"time"

	"shoal/kernel"
)

// each runs a test on a device of every kind that there is here.
func each(t *testing.T, f func(t *testing.T, o Options)) {
	for _, o := range []Options{{Bytes: testBytes}, {Bytes: testBytes, Workers: 3}, {Bytes: testBytes, unshared: true}} {
		t.Run(fmt.Sprintf("workers=%d,unshared=%v", o.Workers, o.unshared), func(t *testing.T) { f(t, o) })
	}
}

func ones(d *Device, n int) kernel.Buffer {
	b := d.Alloc(kernel.Other, kernel.F32, n)
	x := make([]float32, n)
	for i := range x {
		x[i] = 1
	}
	d.Upload(b, kernel.Bytes(x))
	return b
}

// TestOrder: more ops than the ring has room for, with uploads in between that overwrite what ops in the queue still
// read, are done one after the other.
func TestOrder(t *testing.T) {
	each(t, func(t *testing.T, o Options) {
		d := open(t, o)
		defer d.Close()
		const n, times, between = 150_000, 50, 30 // an upload is more than one chunk, an op more than one part
		x, one, y := d.Alloc(kernel.Other, kernel.F32, n), ones(d, n), d.Alloc(kernel.Other, kernel.F32, n)
		d.Zero(y)
		values := make([]float32, n)
		want := float32(0)
		for i := range times {
			for j := range values {
				values[j] = float32(i)
			}
			d.Upload(x, kernel.Bytes(values))
			d.Add(y, y, x)
			for range between {
				d.Add(y, y, one)
			}
			want += float32(i) + between
		}
		for i := range values {
			values[i] = 0
		}
		if err := d.Download(kernel.Bytes(values), y); err != nil {
			t.Fatal(err)
		}
		for i, v := range values {
			if v != want {
				t.Fatalf("element %d is %v, want %v", i, v, want)
			}
		}
	})
}

// TestTransfer: bytes of any length and place come back as they were.
func TestTransfer(t *testing.T) {
	each(t, func(t *testing.T, o Options) {
		d := open(t, o)
		defer d.Close()
		r := rand.New(rand.NewPCG(3, 4))
		whole := d.Alloc(kernel.Other, kernel.BF16, 3_000_000)
		for _, n := range []int{0, 1, 2, 1 << 16, 1<<16 + 1, 2_999_990} {
			b := whole.Slice(7, n)
			sent, got := make([]byte, 2*n), make([]byte, 2*n)
			for i := range sent {
				sent[i] = byte(r.Uint32())
			}
			d.Upload(b, sent)
			if err := d.Download(got, b); err != nil || !bytes.Equal(sent, got) {
				t.Fatalf("%d elements: error %v, equal: %v", n, err, bytes.Equal(sent, got))
			}
		}
	})
}

// work puts n products into the queue that take some 10 ms each, and returns a buffer of one element that counts them.
func work(d *Device, n int) (count kernel.Buffer) {
	const size = 640
	a, b, c := ones(d, size*size), ones(d, size*size), d.Alloc(kernel.Other, kernel.F32, size*size)
	count = d.Alloc(kernel.Other, kernel.F32, 1)
	d.Zero(count)
	for range n {
		d.MatMul(kernel.NN, c, a, b, size, size, size, false)
		d.Add(count, count, a.Slice(0, 1))
	}
	for _, x := range []kernel.Buffer{a, b, c} {
		d.Free(x)
	}
	return count
}

// TestOthersRun: while one goroutine waits for the device, another one goes on.
func TestOthersRun(t *testing.T) {
	each(t, func(t *testing.T, o Options) {
		d := open(t, o)
		defer d.Close()
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		ticks, stop, stopped := 0, make(chan struct{}), make(chan struct{})
		go func() {
			defer close(stopped)
			for {
				select {
				case <-tick.C:
					ticks++
				case <-stop:
					return
				}
			}
		}()
		start := time.Now()
		for time.Since(start) < 300*time.Millisecond {
			d.Free(work(d, 10))
			if err := d.Sync(); err != nil {
				t.Fatal(err)
			}
		}
		close(stop)
		<-stopped
		if ticks < 10 {
			t.Errorf("%d ticks of 5 ms in %v", ticks, time.Since(start))
		}
	})
}

// TestCancel: what is in the queue is not computed any more but for the op that runs, and Sync says why.
func TestCancel(t *testing.T) {
	each(t, func(t *testing.T, o Options) {
		d := open(t, o)
		defer d.Close()
		const n = 60
		reason := errors.New("a reason")
		count := work(d, n)
		go d.Cancel(reason) // begins when this goroutine waits
		if err := d.Sync(); err != reason {
			t.Errorf("Sync: %v, want %v", err, reason)
		}
		var done [1]float32
		d.queue.download(kernel.Bytes(done[:]), address(count)) // Download gives nothing any more
		if done[0] > n/2 {
			t.Errorf("%v of %d ops were computed", done[0], n)
		}
		if err := d.Download(make([]byte, 4), count); err != reason {
			t.Errorf("Download: %v, want %v", err, reason)
		}
	})
}

// TestFull: an Alloc beyond the arena is an error; up to its end all is well; New with more than there can be is one.
func TestFull(t *testing.T) {
	d := open(t, Options{Bytes: 1 << 20})
	defer d.Close()
	for range 3 {
		b := d.Alloc(kernel.Other, kernel.F32, 1<<18-2*align)
		d.Zero(b)
		d.Free(b)
	}
	if err := d.Sync(); err != nil {
		t.Fatal(err)
	}
	d.Alloc(kernel.Other, kernel.F32, 1<<18+1)
	if err := d.Sync(); !errors.Is(err, ErrMemory) {
		t.Errorf("Sync: %v, want %v", err, ErrMemory)
	}
	if d, err := New(Options{Bytes: mostBytes}); !errors.Is(err, ErrMemory) {
		t.Errorf("New of all that WebAssembly can address: %v, %v", d, err)
	}
	for _, o := range []Options{{Workers: -1}, {Workers: mostWorkers + 1}, {Bytes: -1}, {Bytes: mostBytes + 1}} {
		if d, err := New(o); err == nil || !strings.HasPrefix(err.Error(), "wasm: ") || errors.Is(err, ErrMemory) {
			t.Errorf("New(%+v): %v, %v", o, d, err)
		}
	}
}

// TestFault: an op that breaks ends no worker and hangs nobody: it becomes an error that names it, and stays.
func TestFault(t *testing.T) {
	each(t, func(t *testing.T, o Options) {
		d := open(t, o)
		defer d.Close()
		x := ones(d, 10)
		d.queue.add(newCommand(firstOp+gelu, 2*d.Workers()).with(1<<31, 1000, 1<<31, 1000)) // outside of the memory
		for range 3 {
			d.Add(x, x, x)
			if err := d.Sync(); err == nil || !strings.Contains(err.Error(), "gelu has failed") {
				t.Fatalf("Sync: %v", err)
			}
		}
	})
}

// TestNoSIMD, TestNoPage: what is missing is said.
func TestNoSIMD(t *testing.T) {
	api := js.Global().Get("WebAssembly")
	validate := api.Get("validate")
	no := js.FuncOf(func(js.Value, []js.Value) any { return false })
	defer no.Release()
	api.Set("validate", no)
	defer api.Set("validate", validate)
	if d, err := New(Options{}); err == nil || !strings.Contains(err.Error(), "no WebAssembly SIMD") {
		t.Errorf("New: %v, %v", d, err)
	}
}

func TestNoPage(t *testing.T) {
	open := js.Global().Get("shoalCompute")
	js.Global().Set("shoalCompute", js.Undefined())
	defer js.Global().Set("shoalCompute", open)
	if d, err := New(Options{}); err == nil || !strings.Contains(err.Error(), "shoalCompute") {
		t.Errorf("New: %v, %v", d, err)
	}
}

// TestOpenAndClose: devices leave no worker behind, no memory, and nothing that JavaScript keeps for Go.
func TestOpenAndClose(t *testing.T) {
	const mib = 64
	one := func() {
		d := open(t, Options{Workers: 2, Bytes: mib << 20})
		b := d.Alloc(kernel.Other, kernel.F32, mib<<18-2*align)
		d.Zero(b)
		if err := d.Sync(); err != nil {
			t.Fatal(err)
		}
		d.MatMul(kernel.NN, b, ones(d, 1), ones(d, 1), 1, 1, 1, false) // a fault, and work that Close cuts off
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		one()
	}
	before := measure()
	for range 20 {
		one()
	}
	flat := func(u usage) bool {
		return u.workers <= before.workers && u.values <= before.values && u.mib <= before.mib+mib
	}
	after := measure()
	tick := time.NewTicker(20 * time.Millisecond) // the engine drops memory between two tasks
	defer tick.Stop()
	for i := 0; i < 100 && !flat(after); i++ {
		<-tick.C
		after = measure()
	}
	if !flat(after) {
		t.Errorf("before %+v, after 20 devices of %d MiB %+v", before, mib, after)
	}
}

// usage is what devices may leave behind.
type usage struct {
	workers int // in Node all threads
	values  int // of JavaScript, referred to from Go
	mib     int // of the process; in Node only
}

func measure() usage {
	for range 3 { // finalizers let go of JavaScript's values
		runtime.GC()
		runtime.Gosched()
	}
	u := usage{values: js.Global().Call("testValues").Int()}
	if w := js.Global().Get("testWorkers"); w.Type() == js.TypeFunction {
		u.workers = w.Invoke().Int()
		return u
	}
	js.Global().Call("gc")
	threads, _ := os.ReadDir("/proc/self/task")
	u.workers = len(threads)
	u.mib = js.Global().Get("process").Call("memoryUsage").Get("rss").Int() >> 20
	return u
}

// TestFlat: after warm-up a step takes no more memory of Go or of JavaScript.
func TestFlat(t *testing.T) {
	each(t, func(t *testing.T, o Options) {
		d := open(t, o)
		defer d.Close()
		x := make([]byte, 4<<16)
		step := func() {
			a, b := d.Alloc(kernel.Other, kernel.F32, 1<<16), d.Alloc(kernel.Activations, kernel.F32, 1<<16)
			d.Upload(a, x)
			for range 50 {
				d.Add(b, a, a)
			}
			if err := d.Download(x, b); err != nil {
				t.Fatal(err)
			}
			d.Free(a)
			d.Free(b)
		}
		for range 20 {
			step()
		}
		before, holes := measure().values, len(d.arena.holes)
		for range 200 {
			step()
		}
		if after := measure().values; after > before+5 || len(d.arena.holes) != holes {
			t.Errorf("%d values of JavaScript and %d holes, then %d and %d", before, holes, after, len(d.arena.holes))
		}
	})
}

// BenchmarkOp is what an op costs the goroutine that asks for it.
func BenchmarkOp(b *testing.B) {
	d := open(b, Options{Bytes: testBytes})
	defer d.Close()
	x := ones(d, 16)
	b.ReportAllocs()
	for b.Loop() {
		d.Add(x, x, x)
	}
	if err := d.Sync(); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkSync is an op and the way there and back.
func BenchmarkSync(b *testing.B) {
	for _, o := range []Options{{Bytes: testBytes}, {Bytes: testBytes, unshared: true}} {
		b.Run(fmt.Sprintf("unshared=%v", o.unshared), func(b *testing.B) {
			d := open(b, o)
			defer d.Close()
			x := ones(d, 16)
			for b.Loop() {
				d.Add(x, x, x)
				if err := d.Sync(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkTransfer is a mebibyte up and down.
func BenchmarkTransfer(b *testing.B) {
	d := open(b, Options{Bytes: testBytes})
	defer d.Close()
	x := make([]byte, 1<<20)
	y := d.Alloc(kernel.Other, kernel.F32, 1<<18)
	b.SetBytes(2 << 20)
	for b.Loop() {
		d.Upload(y, x)
		if err := d.Download(x, y); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkParts is what a helper costs: an op in two parts that has hardly anything to do.
func BenchmarkParts(b *testing.B) {
	for workers := 1; workers <= 2; workers++ {
		b.Run(fmt.Sprint(workers), func(b *testing.B) {
			d := open(b, Options{Bytes: testBytes, Workers: workers})
			defer d.Close()
			x := ones(d, 4096)
			for b.Loop() {
				d.queue.add(newCommand(firstOp+add, workers).buffers(x, x, x))
			}
			if err := d.Sync(); err != nil {
				b.Fatal(err)
			}
		})
	}
}
