package kernel

import "fmt"

// DType is the element type of a buffer.
type DType uint8

const (
	F32  DType = iota // IEEE float32
	BF16              // the upper half of a float32, rounded to nearest even
	I32               // two's complement int32: token ids, labels, fixed-point gradients
)

// Size is the number of bytes of one element.
func (t DType) Size() int {
	if t == BF16 {
		return 2
	}
	return 4
}

func (t DType) String() string {
	switch t {
	case F32:
		return "f32"
	case BF16:
		return "bf16"
	case I32:
		return "i32"
	}
	return fmt.Sprintf("DType(%d)", uint8(t))
}

// Memory is where an allocation of a device lies. It means something to that device only.
type Memory interface {
	DType() DType
	Len() int // elements
}

// Buffer is a window on a device's memory: Len elements from element Off on. The zero Buffer is "none". A Buffer is a
// value: Slice makes no copy, and only the Buffer that Alloc returned is given to Free.
type Buffer struct {
	Mem        Memory
	Off, Len   int
	Generation int // of Mem, which a device may use again after Free: the Buffer that was freed stays invalid
}

// None says whether b is the zero Buffer.
func (b Buffer) None() bool { return b.Mem == nil }

// Slice is the window of n elements that starts at element lo of b. A window that does not lie inside b yields a
// Buffer of negative length, which every op refuses.
func (b Buffer) Slice(lo, n int) Buffer {
	if lo < 0 || n < 0 || lo+n > b.Len {
		lo, n = 0, -1
	}
	return Buffer{Mem: b.Mem, Off: b.Off + lo, Len: n, Generation: b.Generation}
}

// Trans says which operand of a product is stored transposed.
type Trans uint8

const (
	NN Trans = iota // C (m,n) = A (m,k) * B (k,n)
	NT              // C (m,n) = A (m,k) * B (n,k)^T
	TN              // C (m,n) = A (k,m)^T * B (k,n)
)

func (t Trans) String() string { return [...]string{"NN", "NT", "TN"}[t] }

// LayerNormEps is added to a row's variance before the square root.
const LayerNormEps = 1e-5

// AttentionShape is the shape of an attention op: B sequences of T positions, H heads of D elements; C = H*D. A causal
// row t sees positions 0..t, any other row sees all.
type AttentionShape struct {
	B, T, H, D int
	Causal     bool
}

// AdamW holds the scalars of one update (Loshchilov and Hutter 2019, arXiv 1711.05101). They are the same on every
// peer because the run's log carries them.
type AdamW struct {
	Scale        float32 // turns the summed gradient into the clipped mean gradient
	LR           float32 // learning rate of this step
	Decay        float32 // LR * weight decay; 0 for norms and biases
	Beta1, Beta2 float32
	Eps          float32
	C1, C2       float32 // bias corrections 1/(1-Beta1^t), 1/(1-Beta2^t)
}

// Device computes. Its memory need not be Go's: ops take Buffers and run in the order in which they are called, maybe
// later than the call; only Upload, Download and Sync cross over. One goroutine at a time may call a Device.
//
// Every matrix is row-major and dense. kernel/ref says, bit for bit, what each op computes; shapes are given in
// comments as (rows, cols). Outputs must not overlap inputs unless the op says that they may. An op given a Buffer of
// the wrong type or length, or a nil Memory, computes nothing and makes Sync and Download return an error from then on
// (the first one is kept).
type Device interface {
	// Name is the backend and its code path, as in "cpu/avx512".
	Name() string
	// Alloc returns a buffer of n elements with undefined contents, accounted under c. n may be 0. A failed
	// allocation is reported by Sync.
	Alloc(c Class, t DType, n int) Buffer
	// Free gives b back; freeing the zero Buffer does nothing. b must come from Alloc or Share, not from Slice.
	Free(b Buffer)
	// Trim lets go of freed memory that is kept for Allocs of the same length: from now on other lengths are needed.
	Trim()
	// Share makes x, little-endian elements on the host, a buffer that is x itself, without a copy; it counts nowhere. Until
	// Free nobody else may write x, and x must be aligned as Go aligns such elements. A device that can't compute in Go's
	// memory returns the zero Buffer.
	Share(t DType, x []byte) Buffer
	// Upload copies little-endian elements from the host; src may be reused at return. len(src) = b.Len * size.
	Upload(dst Buffer, src []byte)
	// Download waits for the ops before it and copies src to the host, little-endian.
	Download(dst []byte, src Buffer) error
	// Sync waits for all ops and returns the first error of any of them.
	Sync() error
	// Meter counts the live and peak bytes of this device by class.
	Meter() *Meter
	// Cancel makes all ops from now on do nothing, and Sync and Download return err (or an earlier fault). It is the one
	// method that any goroutine may call at any time: a long computation ends within the op that is running.
	Cancel(err error)
	// Close frees everything. It may be called twice.
	Close() error

	Ops
}

// Ops are what the models and the optimizer need. All Buffers are F32 unless a comment says otherwise.
type Ops interface {
	// MatMul: c (m,n) = a*b, or c += a*b if accumulate. Each element is one chain of fused multiply-adds over k
	// ascending, from 0 or from the old value. k = 0 leaves 0 or the old value.
	MatMul(t Trans, c, a, b Buffer, m, n, k int, accumulate bool)

	// AddRows: y[r] = x[r] + table[r mod period]; x, y (rows, cols), table (period, cols). A bias has period 1. y
	// may be x.
	AddRows(y, x, table Buffer, rows, cols, period int)
	// SumRows: dtable[p] = the sum of dy[r] over r = p, p+period, ... ascending, from 0.
	SumRows(dtable, dy Buffer, rows, cols, period int)
	// Add: y = a + b. y may be a or b.
	Add(y, a, b Buffer)
	// Zero sets every element (of any type) to 0.
	Zero(y Buffer)
	// Copy copies src to dst, same type and length.
	Copy(dst, src Buffer)

	// GELU by its tanh form (Hendrycks and Gimpel 2016, arXiv 1606.08415). y may be x.
	GELU(y, x Buffer)
	// GELUBackward: dx = dy * gelu'(x). dx may be dy.
	GELUBackward(dx, x, dy Buffer)
	// ReLU: y = max(x, 0), NaN stays NaN. y may be x.
	ReLU(y, x Buffer)
	// ReLUBackward: dx = dy where x > 0, else 0. dx may be dy.
	ReLUBackward(dx, x, dy Buffer)

	// LayerNorm over each row of x (rows, cols); mean and rstd (rows) are kept for the backward pass.
	LayerNorm(y, mean, rstd, x, gamma, beta Buffer, rows, cols int)
	// LayerNormBackward writes dx (rows, cols), dgamma and dbeta (cols). dx may be dy.
	LayerNormBackward(dx, dgamma, dbeta, dy, x, mean, rstd, gamma Buffer, rows, cols int)

	// Attention: y (B,T,C) = softmax(Q K^T / sqrt(D)) V from qkv (B,T,3C), whose rows hold q, k, v, each (H,D).
	// stats (B,H,T,2) keeps each row's maximum and sum for the backward pass.
	Attention(y, stats, qkv Buffer, s AttentionShape)
	// AttentionBackward writes dqkv (B,T,3C) from dy, y (B,T,C), qkv and stats.
	AttentionBackward(dqkv, dy, y, qkv, stats Buffer, s AttentionShape)

	// Embedding: y[r] = table[ids[r]]; ids (rows) I32, table (vocab, cols). An id outside the table gives zeros.
	Embedding(y, table, ids Buffer, rows, cols int)
	// EmbeddingBackward: dtable[v] = the sum of dy[r] over rows with ids[r] = v ascending, from 0.
	EmbeddingBackward(dtable, dy, ids Buffer, rows, cols int)

	// MeanRows: y[g] = the mean of x[g*n .. g*n+n-1]; x (groups*n, cols), y (groups, cols).
	MeanRows(y, x Buffer, groups, n, cols int)
	// MeanRowsBackward: dx[g*n+i] = dy[g] / n.
	MeanRowsBackward(dx, dy Buffer, groups, n, cols int)

	// CrossEntropy: loss[r] = -log softmax(logits[r])[labels[r]] and its gradient dlogits; labels (rows) I32. A
	// label < 0 is ignored: its loss and gradient are 0; with a label >= cols they are NaN. dlogits may be logits, or
	// the zero Buffer if not wanted.
	CrossEntropy(loss, dlogits, logits, labels Buffer, rows, cols int)
	// Argmax: idx[r] (I32) = the lowest column that holds the row's maximum.
	Argmax(idx, x Buffer, rows, cols int)

	// Sum: dst (1) = the sum of x as one row reduction.
	Sum(dst, x Buffer)
	// MaxAbs: dst (1) = max |x|, 0 for an empty x, +Inf if any element is NaN or infinite.
	MaxAbs(dst, x Buffer)

	// Quantize: acc (I32) += round to nearest even (g * 2^shift), wrapping. A product beyond +-2^30 is clamped to
	// it, NaN counts as 0: such an attempt is never committed.
	Quantize(acc, g Buffer, shift int)
	// QuantizeStochastic is Quantize that rounds element i up or down at random, so that the mean of many roundings is
	// the value itself: up if its fraction is above the i-th number in [0, 1) of a counter-based generator under key.
	QuantizeStochastic(acc, g Buffer, shift int, key uint64)
	// AddI32: acc += x, both I32, wrapping. acc may be x.
	AddI32(acc, x Buffer)
	// SumSquares: dst (4, I32) = the sum of x*x (x I32) as one 128-bit integer, least significant word first.
	SumSquares(dst, x Buffer)
	// AdamW updates p, m and v (F32) from the summed gradient q (I32 or F32), all of one length.
	AdamW(p, m, v, q Buffer, h AdamW)

	// ToBF16 rounds src (F32) to dst (BF16), to nearest even; NaN stays a quiet NaN.
	ToBF16(dst, src Buffer)
	// FromBF16 widens src (BF16) to dst (F32).
	FromBF16(dst, src Buffer)
}
