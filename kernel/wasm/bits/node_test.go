//go:build !js

// Package bits tests the WebAssembly kernels by themselves, in Node: all four modules, in one part, in several parts one
// after the other, and in several at once.
package bits

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"testing"

	"shoal/kernel"
	"shoal/kernel/host"
)

// setup is one way to run a module.
type setup struct {
	module  string // without .wasm
	parts   int
	threads bool // each part on a worker of its own, at the same time
	scratch int  // bytes, 0 for scratchMin
}

func (s setup) String() string {
	how := "in turn"
	if s.threads {
		how = "at once"
	}
	return fmt.Sprintf("%s, %d parts %s", s.module, s.parts, how)
}

const (
	scratchMin = 1 << 20
	buffers    = 64<<10 + 4*(scratchMin+64) // where there is room for them, as in run.mjs
)

// node is a running run.mjs: a module that computes ops on memory that goes there and back with each.
type node struct {
	name  string
	parts int
	in    io.WriteCloser
	out   *bufio.Reader
	ns    float64 // what the last op took
	times int     // how often an op runs
}

// start starts one; it ends with the test.
func start(t testing.TB, s setup) *node {
	t.Helper()
	path, err := exec.LookPath("node")
	if err != nil {
		t.Fatalf("%v (Debian: apt-get install nodejs)", err)
	}
	if s.scratch == 0 {
		s.scratch = scratchMin
	}
	workers := 0
	if s.threads {
		workers = s.parts
	}
	cmd := exec.Command(path, "run.mjs", "../"+s.module+".wasm", fmt.Sprint(workers), fmt.Sprint(s.scratch))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	})
	return &node{name: s.String(), parts: s.parts, in: in, out: bufio.NewReaderSize(out, 1<<16), times: 1}
}

// device computes every op by a node; its memory is the host's.
type device struct {
	*host.Heap
	kernel.Checked
	name string
}

func (d *device) Name() string { return d.name }

func (n *node) device() *device {
	h := host.New(true)
	return &device{Heap: h, Checked: kernel.Checked{Raw: ops{n, h}, Host: h}, name: n.name}
}

// request is what run.mjs reads before the regions' bytes.
type request struct {
	Op      string   `json:"op"`
	Args    []uint32 `json:"args"`
	Parts   int      `json:"parts"`
	Regions [][2]int `json:"regions"` // address, bytes
	Times   int      `json:"times"`
}

type reply struct {
	Error  string  `json:"error"`
	Result int     `json:"result"`
	NS     float64 `json:"ns"`
}

// exchange sends r with the bytes of its regions, which the answer's replace.
func (n *node) exchange(r request, regions [][]byte) (reply, error) {
	var a reply
	head, err := json.Marshal(r)
	if err != nil {
		return a, err
	}
	w := bufio.NewWriterSize(n.in, 1<<16)
	_ = binary.Write(w, binary.LittleEndian, uint32(len(head))) // Flush tells
	_, _ = w.Write(head)
	for _, b := range regions {
		_, _ = w.Write(b)
	}
	if err := w.Flush(); err != nil {
		return a, err
	}
	var length uint32
	if err := binary.Read(n.out, binary.LittleEndian, &length); err != nil {
		return a, err
	}
	text := make([]byte, length)
	if _, err := io.ReadFull(n.out, text); err != nil {
		return a, err
	}
	if err := json.Unmarshal(text, &a); err != nil {
		return a, err
	}
	if a.Error != "" {
		return a, errors.New(a.Error)
	}
	for _, b := range regions {
		if _, err := io.ReadFull(n.out, b); err != nil {
			return a, err
		}
	}
	return a, nil
}

// run runs op; args are those of its method.
func (o ops) run(op string, args ...any) {
	r := request{Op: op, Parts: o.parts, Times: o.times}
	var regions [][]byte
	at := map[kernel.Memory]int{}
	next := buffers
	word := func(v int) { r.Args = append(r.Args, uint32(int32(v))) }
	float := func(v float32) { r.Args = append(r.Args, math.Float32bits(v)) }
	for _, arg := range args {
		switch v := arg.(type) {
		case kernel.Buffer:
			if v.None() {
				word(0)
				word(0)
				continue
			}
			if _, ok := at[v.Mem]; !ok {
				b := allBytes(v.Mem)
				next += 64 + next/64%4*4 // a gap, and another alignment each time
				at[v.Mem] = next
				regions = append(regions, b)
				r.Regions = append(r.Regions, [2]int{next, len(b)})
				next = (next + len(b) + 63) / 64 * 64
			}
			word(at[v.Mem] + v.Off*v.Mem.DType().Size())
			word(v.Len)
		case int:
			word(v)
		case bool:
			word(oneIf(v))
		case kernel.Trans:
			word(int(v))
		case float32:
			float(v)
		case uint64:
			r.Args = append(r.Args, uint32(v), uint32(v>>32))
		case kernel.AttentionShape:
			for _, x := range []int{v.B, v.T, v.H, v.D, oneIf(v.Causal)} {
				word(x)
			}
		case kernel.AdamW:
			for _, x := range []float32{v.Scale, v.LR, v.Decay, v.Beta1, v.Beta2, v.Eps, v.C1, v.C2} {
				float(x)
			}
		default:
			panic(fmt.Sprintf("%s: an argument of type %T", op, arg))
		}
	}
	a, err := o.exchange(r, regions)
	o.ns = a.NS
	if err != nil {
		o.heap.Fail(fmt.Errorf("%s: %w", op, err))
	}
}

func oneIf(b bool) int {
	if b {
		return 1
	}
	return 0
}

func allBytes(m kernel.Memory) []byte {
	b := kernel.Buffer{Mem: m, Len: m.Len()}
	switch m.DType() {
	case kernel.BF16:
		return kernel.Bytes(host.BF16(b))
	case kernel.I32:
		return kernel.Bytes(host.I32(b))
	}
	return kernel.Bytes(host.F32(b))
}

// ops are kernel.Ops by a module.
type ops struct {
	*node
	heap *host.Heap
}

func (o ops) MatMul(t kernel.Trans, c, a, b kernel.Buffer, m, n, k int, accumulate bool) {
	o.run("mat_mul", t, c, a, b, m, n, k, accumulate)
}

func (o ops) AddRows(y, x, table kernel.Buffer, rows, cols, period int) {
	o.run("add_rows", y, x, table, rows, cols, period)
}

func (o ops) SumRows(dtable, dy kernel.Buffer, rows, cols, period int) {
	o.run("sum_rows", dtable, dy, rows, cols, period)
}

func (o ops) Add(y, a, b kernel.Buffer)            { o.run("add", y, a, b) }
func (o ops) Zero(y kernel.Buffer)                 { o.run("zero", y, y.Mem.DType().Size()) }
func (o ops) Copy(dst, src kernel.Buffer)          { o.run("copy", dst, src, dst.Mem.DType().Size()) }
func (o ops) GELU(y, x kernel.Buffer)              { o.run("gelu", y, x) }
func (o ops) GELUBackward(dx, x, dy kernel.Buffer) { o.run("gelu_backward", dx, x, dy) }
func (o ops) ReLU(y, x kernel.Buffer)              { o.run("relu", y, x) }
func (o ops) ReLUBackward(dx, x, dy kernel.Buffer) { o.run("relu_backward", dx, x, dy) }

func (o ops) LayerNorm(y, mean, rstd, x, gamma, beta kernel.Buffer, rows, cols int) {
	o.run("layer_norm", y, mean, rstd, x, gamma, beta, rows, cols)
}

func (o ops) LayerNormBackward(dx, dgamma, dbeta, dy, x, mean, rstd, gamma kernel.Buffer, rows, cols int) {
	o.run("layer_norm_columns", dx, dgamma, dbeta, dy, x, mean, rstd, gamma, rows, cols)
	o.run("layer_norm_backward", dx, dgamma, dbeta, dy, x, mean, rstd, gamma, rows, cols)
}

func (o ops) Attention(y, stats, qkv kernel.Buffer, s kernel.AttentionShape) {
	o.run("attention", y, stats, qkv, s)
}

func (o ops) AttentionBackward(dqkv, dy, y, qkv, stats kernel.Buffer, s kernel.AttentionShape) {
	o.run("attention_backward", dqkv, dy, y, qkv, stats, s)
}

func (o ops) Embedding(y, table, ids kernel.Buffer, rows, cols int) {
	o.run("embedding", y, table, ids, rows, cols)
}

func (o ops) EmbeddingBackward(dtable, dy, ids kernel.Buffer, rows, cols int) {
	o.run("embedding_backward", dtable, dy, ids, rows, cols)
}

func (o ops) MeanRows(y, x kernel.Buffer, groups, n, cols int) {
	o.run("mean_rows", y, x, groups, n, cols)
}

func (o ops) MeanRowsBackward(dx, dy kernel.Buffer, groups, n, cols int) {
	o.run("mean_rows_backward", dx, dy, groups, n, cols)
}

func (o ops) CrossEntropy(loss, dlogits, logits, labels kernel.Buffer, rows, cols int) {
	o.run("cross_entropy", loss, dlogits, logits, labels, rows, cols)
}

func (o ops) Argmax(idx, x kernel.Buffer, rows, cols int) { o.run("argmax", idx, x, rows, cols) }
func (o ops) Sum(dst, x kernel.Buffer)                    { o.run("sum", dst, x) }
func (o ops) MaxAbs(dst, x kernel.Buffer)                 { o.run("max_abs", dst, x) }
func (o ops) Quantize(acc, g kernel.Buffer, shift int)    { o.run("quantize", acc, g, clamp(shift)) }

func (o ops) QuantizeStochastic(acc, g kernel.Buffer, shift int, key uint64) {
	o.run("quantize_stochastic", acc, g, clamp(shift), key)
}

// clamp makes a word of a shift; beyond +-1000 all do the same.
func clamp(shift int) int { return min(max(shift, -1000), 1000) }

func (o ops) AddI32(acc, x kernel.Buffer)     { o.run("add_i32", acc, x) }
func (o ops) SumSquares(dst, x kernel.Buffer) { o.run("sum_squares", dst, x) }

func (o ops) AdamW(p, m, v, q kernel.Buffer, h kernel.AdamW) {
	o.run("adam_w", p, m, v, q, q.Mem.DType() == kernel.F32, h)
}

func (o ops) ToBF16(dst, src kernel.Buffer)   { o.run("to_bf16", dst, src) }
func (o ops) FromBF16(dst, src kernel.Buffer) { o.run("from_bf16", dst, src) }

// fused says whether the module rounds a fused multiply-add once on this engine.
func (n *node) fused(t testing.TB) bool {
	t.Helper()
	a, err := n.exchange(request{Op: "fuses", Regions: [][2]int{}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return a.Result == 1
}
