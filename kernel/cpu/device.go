package cpu

import (
	"fmt"
	"runtime"

	"shoal/kernel"
	"shoal/kernel/cpu/gemm"
	"shoal/kernel/host"
	"shoal/kernel/ref"
)

// Config says how a Device uses the machine. The zero Config uses all of it.
type Config struct {
	Threads int    // goroutines that compute; 0 means GOMAXPROCS
	Path    string // code path: "avx512", "avx2", "neon" or "generic"; "" means the best one here
}

// Device implements kernel.Device.
type Device struct {
	*host.Heap
	kernel.Checked
	path  string
	crew  *crew
	loops loops
}

var _ kernel.Device = (*Device)(nil)

// New starts a device. A path that can't run here, or a negative number of threads, is an error.
func New(cfg Config) (*Device, error) {
	if cfg.Threads < 0 || cfg.Threads > 4096 {
		return nil, fmt.Errorf("cpu: %d threads: want 1 to 4096, or 0 for all cores", cfg.Threads)
	}
	if cfg.Threads == 0 {
		cfg.Threads = runtime.GOMAXPROCS(0)
	}
	k, err := gemm.Select(cfg.Path)
	if err != nil {
		return nil, fmt.Errorf("cpu: %w", err)
	}
	h, c := host.New(false), newCrew(cfg.Threads)
	o := &ops{gemm: k, loops: selectLoops(k.Name()), crew: c, scratch: make([]scratch, cfg.Threads)}
	return &Device{Heap: h, Checked: kernel.Checked{Raw: o, Host: h}, path: k.Name(), crew: c, loops: o.loops}, nil
}

// Name implements kernel.Device.
func (d *Device) Name() string { return "cpu/" + d.path }

// Close implements kernel.Device. It waits for the device's goroutines.
func (d *Device) Close() error {
	d.crew.stop()
	return d.Heap.Close()
}

// ops are the ops on checked buffers. What it does not override runs as in kernel/ref.
type ops struct {
	ref.Ops
	gemm    *gemm.Kernel
	loops   loops
	crew    *crew
	scratch []scratch // one per worker
	args    args
}

// args have a place for the arguments of each op, since one op of a device runs at a time: arguments that its goroutines share
// would be memory to allocate in every op otherwise.
type args struct {
	f32Unary          unary[float32, float32]
	i32Unary          unary[int32, int32]
	toBF16            unary[uint16, float32]
	fromBF16          unary[float32, uint16]
	binary            binary
	zero              zero
	copy              copied
	matMul            matMul
	addRows           addRows
	sumRows           sumRows
	meanRows          meanRows
	meanRowsBackward  meanRowsBackward
	embeddingBackward embeddingBackward
	layerNorm         layerNorm
	normColumns       normColumns
	normRows          normRows
	attention         attention
	attentionBackward attentionBackward
	crossEntropy      crossEntropy
	argmax            argmax
	maxAbs            maxAbs
	quantize          quantize
	stochastic        stochastic
	squares           squares
	adamW             adamW
}

// run has o's crew do the op that args are for. Then nothing holds the memory that it worked on.
func run[A any, T interface {
	*A
	task
}](o *ops, place *A, args A, total, grain int) {
	*place = args
	o.crew.split(total, grain, T(place))
	var none A
	*place = none
}

// scratch is the memory of one worker.
type scratch struct {
	gemm   gemm.Scratch
	f32    [3][]float32
	max    uint32
	square squareSum
}

// floats is the worker's i-th buffer, of n elements with undefined contents.
func (s *scratch) floats(i, n int) []float32 {
	if cap(s.f32[i]) < n {
		s.f32[i] = make([]float32, n)
	}
	return s.f32[i][:n]
}

var f32, i32, bf16 = host.F32, host.I32, host.BF16
