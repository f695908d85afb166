package wasm

import (
	"errors"
	"fmt"
	"strings"
	"syscall/js"

	"shoal/kernel"
	"shoal/kernel/host"
)

// ErrMemory says that the browser doesn't give the memory that New asks for, or that Alloc found no room in it.
var ErrMemory = errors.New("not enough memory")

// Options say what a Device may use. The zero value is one worker and 256 MiB.
type Options struct {
	Workers int   // compute workers, 1 to 24; 0 means 1. Where memory can't be shared there is one, however many are asked for
	Bytes   int64 // memory for buffers, taken at once and never more; 0 means 256 MiB, somewhat less than 4 GiB is the most

	exact    bool // kernels without relaxed SIMD, as where there is none
	unshared bool // as where memory can't be shared
}

const (
	mostWorkers  = 24 // as in web/layout.mjs
	defaultBytes = 256 << 20
	mostBytes    = 1 << 32 // what a WebAssembly memory can have
)

// Device implements kernel.Device. Like every kernel.Device it is for one goroutine at a time; but while that one waits in
// Sync, Download or an op, others run.
type Device struct {
	kernel.Checked
	kernel.Cancellation
	meter   kernel.Meter
	arena   arena
	queue   *queue
	err     error // the first fault
	closed  bool
	kind    string
	workers int
	shared  bool
}

var _ kernel.Device = (*Device)(nil)

// memory is one allocation; a freed one has length -1.
type memory struct {
	device *Device
	class  kernel.Class
	t      kernel.DType
	n      int
	span   span
}

func (m *memory) DType() kernel.DType { return m.t }
func (m *memory) Len() int            { return m.n }
func (m *memory) size() int64         { return int64(m.n) * int64(m.t.Size()) }

// address of b's first element; 0 for the zero Buffer.
func address(b kernel.Buffer) uint32 {
	if b.None() {
		return 0
	}
	m := b.Mem.(*memory)
	return uint32(m.span.at + int64(b.Off*m.t.Size()))
}

// New starts the compute workers by globalThis.shoalCompute (see the package's comment), takes the memory and waits until all
// are ready. It fails if the browser has no SIMD, with ErrMemory if it doesn't give so much memory, and if the kernels can't
// be loaded.
func New(o Options) (*Device, error) {
	if o.Workers < 0 || o.Workers > mostWorkers || o.Bytes < 0 || o.Bytes > mostBytes {
		return nil, fmt.Errorf("wasm: %d workers and %d bytes: want 1 to %d workers and up to %d bytes, or 0 for 1 and %d", o.Workers, o.Bytes,
			mostWorkers, int64(mostBytes), defaultBytes)
	}
	if o.Workers == 0 {
		o.Workers = 1
	}
	if o.Bytes == 0 {
		o.Bytes = defaultBytes
	}
	open := js.Global().Get("shoalCompute")
	if open.Type() != js.TypeFunction {
		return nil, errors.New("wasm: globalThis.shoalCompute is not set: import openCompute from /kernel/web/compute.mjs before the program starts")
	}
	compute, err := await(open.Invoke(map[string]any{"workers": o.Workers, "bytes": o.Bytes, "ops": opNames(), "exact": o.exact, "unshared": o.unshared}))
	if err != nil {
		return nil, fmt.Errorf("wasm: %d compute workers with %d bytes of memory: %w", o.Workers, o.Bytes, err)
	}
	d := &Device{
		arena:   newArena(int64(compute.Get("arena").Int()), o.Bytes),
		kind:    compute.Get("kind").String(),
		workers: compute.Get("workers").Int(),
		shared:  compute.Get("shared").Bool(),
	}
	d.queue = newQueue(compute, d.Fail)
	d.Checked = kernel.Checked{Raw: ops{d.queue, d.workers}, Host: d}
	return d, nil
}

// await waits for a promise.
func await(promise js.Value) (js.Value, error) {
	type outcome struct {
		v   js.Value
		err error
	}
	settled := make(chan outcome, 1)
	then := js.FuncOf(func(_ js.Value, args []js.Value) any {
		settled <- outcome{v: args[0]}
		return nil
	})
	defer then.Release()
	otherwise := js.FuncOf(func(_ js.Value, args []js.Value) any {
		settled <- outcome{err: rejection(args[0])}
		return nil
	})
	defer otherwise.Release()
	promise.Call("then", then, otherwise)
	o := <-settled
	return o.v, o.err
}

// rejection is a promise's reason as an error. Some engines say by a RangeError that there isn't so much memory, some by a string.
func rejection(reason js.Value) error {
	text := js.Global().Call("String", reason).String()
	if strings.HasPrefix(text, "RangeError") || strings.Contains(text, "out of memory") {
		return fmt.Errorf("%w: %s", ErrMemory, text)
	}
	return errors.New(text)
}

// Name implements kernel.Device: wasm/relaxed, or wasm/simd where there is no relaxed SIMD.
func (d *Device) Name() string { return "wasm/" + d.kind }

// Workers is how many compute workers there are, and Shared whether memory is shared: if not there is one.
func (d *Device) Workers() int { return d.workers }
func (d *Device) Shared() bool { return d.shared }

// Owns implements kernel.Host.
func (d *Device) Owns(b kernel.Buffer) bool {
	m, ok := b.Mem.(*memory)
	return ok && m.device == d && m.n >= 0 && !d.closed
}

// Fail implements kernel.Host.
func (d *Device) Fail(err error) {
	if d.err == nil {
		d.err = err
	}
}

// Alloc implements kernel.Device.
func (d *Device) Alloc(c kernel.Class, t kernel.DType, n int) kernel.Buffer {
	if d.closed || n < 0 || c >= kernel.NumClasses || t > kernel.I32 {
		d.Fail(fmt.Errorf("kernel: Alloc of %d elements of %v for %v: not possible (closed: %v)", n, t, c, d.closed))
		return kernel.Buffer{}
	}
	s, ok := span{}, false
	if n <= mostBytes {
		s, ok = d.arena.take(int64(n) * int64(t.Size()))
	}
	if !ok {
		d.Fail(fmt.Errorf("kernel: Alloc of %d elements of %v for %v: %w: %d of %d bytes are in use", n, t, c, ErrMemory, d.arena.used, d.arena.size))
		return kernel.Buffer{}
	}
	m := &memory{device: d, class: c, t: t, n: n, span: s}
	d.meter.Add(c, m.size())
	return kernel.Buffer{Mem: m, Len: n}
}

// Free implements kernel.Device. What the queue still does with b comes before all that is done with its memory later.
func (d *Device) Free(b kernel.Buffer) {
	if b.None() || d.closed {
		return
	}
	m, ok := b.Mem.(*memory)
	if !ok || m.device != d || m.n < 0 || b.Off != 0 || b.Len != m.n {
		d.Fail(fmt.Errorf("kernel: Free of a buffer (offset %d, length %d) that is freed already or that Alloc did not return", b.Off, b.Len))
		return
	}
	d.meter.Add(m.class, -m.size())
	d.arena.give(m.span)
	m.n = -1
}

// Share implements kernel.Device: the workers' memory is not Go's.
func (d *Device) Share(kernel.DType, []byte) kernel.Buffer { return kernel.Buffer{} }

// Upload implements kernel.Device. It waits only if the queue is full.
func (d *Device) Upload(dst kernel.Buffer, src []byte) {
	if kernel.CheckTransfer(d, "Upload", dst, len(src)) && d.Cancelled() == nil {
		d.queue.upload(address(dst), src)
	}
}

// Download implements kernel.Device.
func (d *Device) Download(dst []byte, src kernel.Buffer) error {
	if kernel.CheckTransfer(d, "Download", src, len(dst)) && d.fault() == nil {
		d.queue.download(dst, address(src))
	}
	return d.fault()
}

// Sync implements kernel.Device.
func (d *Device) Sync() error {
	if !d.closed {
		d.queue.sync()
	}
	return d.fault()
}

func (d *Device) fault() error {
	if d.err != nil {
		return d.err
	}
	return d.Cancelled()
}

// Trim implements kernel.Device. The arena keeps nothing by length.
func (d *Device) Trim() {}

// Meter implements kernel.Device.
func (d *Device) Meter() *kernel.Meter { return &d.meter }

// Cancel implements kernel.Device.
func (d *Device) Cancel(err error) {
	d.Cancellation.Cancel(err)
	d.queue.cancel()
}

// Close implements kernel.Device: the workers end, whatever they do, and their memory is dropped.
func (d *Device) Close() error {
	if d.closed {
		return nil
	}
	d.Fail(host.ErrClosed)
	d.closed = true
	for c := kernel.Class(0); c < kernel.NumClasses; c++ {
		d.meter.Add(c, -d.meter.Live(c))
	}
	d.arena = arena{}
	return d.queue.close()
}
