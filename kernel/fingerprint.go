package kernel

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"math"
)

// Fingerprint runs a fixed set of calls of every op on d and returns a short hash of the results, 16 hex digits.
// Devices with the same fingerprint compute the same bits (up to the sign and payload of NaN, which are not hashed), so
// a run that promises exactness admits peers by it. It takes some tens of milliseconds and leaves no memory behind.
func Fingerprint(d Device) (string, error) {
	p := &probe{d: d, h: sha256.New()}
	p.products()
	p.elementwise()
	p.rows()
	p.attention()
	p.losses()
	p.update()
	if err := d.Sync(); err != nil {
		return "", fmt.Errorf("fingerprint of %s: %w", d.Name(), err)
	}
	return hex.EncodeToString(p.h.Sum(nil)[:8]), nil
}

// probe makes inputs from a counter, and hashes outputs.
type probe struct {
	d       Device
	h       hash.Hash
	counter uint64
	live    []Buffer
}

func (p *probe) bits() uint64 {
	p.counter += 0x9e3779b97f4a7c15
	z := p.counter
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

func (p *probe) alloc(t DType, n int) Buffer {
	b := p.d.Alloc(Other, t, n)
	p.live = append(p.live, b)
	return b
}

func (p *probe) out(n int) Buffer { return p.alloc(F32, n) }

// floats are n values: mostly a few units large, some tiny, subnormal, zero or large, to catch flushed subnormals.
func (p *probe) floats(n int) Buffer {
	x := make([]float32, n)
	for i := range x {
		u := p.bits()
		x[i] = float32(int32(u)) * 0x1p-30
		switch u >> 32 & 31 {
		case 0:
			x[i] = 0
		case 1:
			x[i] *= 0x1p-126
		case 2:
			x[i] *= 0x1p-64
		case 3:
			x[i] *= 16
		}
	}
	b := p.out(n)
	p.d.Upload(b, Bytes(x))
	return b
}

// ints are n values in [lo, hi).
func (p *probe) ints(n, lo, hi int) Buffer {
	x := make([]int32, n)
	for i := range x {
		x[i] = int32(lo + int(p.bits()>>1%uint64(hi-lo)))
	}
	b := p.alloc(I32, n)
	p.d.Upload(b, Bytes(x))
	return b
}

// take hashes results, then frees everything that was allocated since the last take.
func (p *probe) take(results ...Buffer) {
	for _, b := range results {
		if b.None() {
			continue // Alloc failed: Sync says so
		}
		raw := make([]byte, b.Len*b.Mem.DType().Size())
		if p.d.Download(raw, b) == nil && b.Mem.DType() == F32 {
			canonicalNaN(raw)
		}
		p.h.Write(raw)
	}
	for _, b := range p.live {
		p.d.Free(b)
	}
	p.live = p.live[:0]
}

// canonicalNaN gives every NaN among little-endian float32 the same pattern.
func canonicalNaN(raw []byte) {
	for i := 0; i+4 <= len(raw); i += 4 {
		u := uint32(raw[i]) | uint32(raw[i+1])<<8 | uint32(raw[i+2])<<16 | uint32(raw[i+3])<<24
		if f := math.Float32frombits(u); f != f {
			raw[i], raw[i+1], raw[i+2], raw[i+3] = 0, 0, 0xc0, 0x7f
		}
	}
}

func (p *probe) products() {
	const m, n, k = 29, 45, 300
	for t := NN; t <= TN; t++ {
		a, b, c := p.floats(m*k), p.floats(k*n), p.floats(m*n)
		y := p.out(m * n)
		p.d.MatMul(t, y, a, b, m, n, k, false)
		p.d.MatMul(t, c, a, b, m, n, k, true)
		p.take(y, c)
	}
}

func (p *probe) elementwise() {
	const n = 1003
	x, dy := p.floats(n), p.floats(n)
	var y [8]Buffer
	for i := range y {
		y[i] = p.out(n)
	}
	p.d.GELU(y[0], x)
	p.d.GELUBackward(y[1], x, dy)
	p.d.ReLU(y[2], x)
	p.d.ReLUBackward(y[3], x, dy)
	p.d.Add(y[4], x, dy)
	p.d.Copy(y[5], x)
	p.d.Zero(y[6])
	half := p.alloc(BF16, n)
	p.d.ToBF16(half, x)
	p.d.FromBF16(y[7], half)
	p.take(append(y[:], half)...)
}

func (p *probe) rows() {
	const rows, cols, period = 51, 37, 17
	x, dy, table, gamma, beta := p.floats(rows*cols), p.floats(rows*cols), p.floats(period*cols), p.floats(cols), p.floats(cols)
	ids := p.ints(rows, -1, period+1)
	y, dtable, mean, rstd := p.out(rows*cols), p.out(period*cols), p.out(rows), p.out(rows)
	dx, dgamma, dbeta, norm := p.out(rows*cols), p.out(cols), p.out(cols), p.out(rows*cols)
	p.d.AddRows(y, x, table, rows, cols, period)
	p.d.SumRows(dtable, dy, rows, cols, period)
	p.d.LayerNorm(norm, mean, rstd, x, gamma, beta, rows, cols)
	p.d.LayerNormBackward(dx, dgamma, dbeta, dy, x, mean, rstd, gamma, rows, cols)
	embedded, dembedding := p.out(rows*cols), p.out(period*cols)
	p.d.Embedding(embedded, table, ids, rows, cols)
	p.d.EmbeddingBackward(dembedding, dy, ids, rows, cols)
	means, dmeans := p.out(rows/period*cols), p.out(rows*cols)
	p.d.MeanRows(means, x, rows/period, period, cols)
	p.d.MeanRowsBackward(dmeans, means, rows/period, period, cols)
	p.take(y, dtable, norm, mean, rstd, dx, dgamma, dbeta, embedded, dembedding, means, dmeans)
}

func (p *probe) attention() {
	for _, s := range []AttentionShape{{B: 2, T: 17, H: 3, D: 5}, {B: 1, T: 70, H: 2, D: 16, Causal: true}} {
		n := s.B * s.T * s.H * s.D
		qkv, dy := p.floats(3*n), p.floats(n)
		y, stats, dqkv := p.out(n), p.out(s.B*s.H*s.T*2), p.out(3*n)
		p.d.Attention(y, stats, qkv, s)
		p.d.AttentionBackward(dqkv, dy, y, qkv, stats, s)
		p.take(y, stats, dqkv)
	}
}

func (p *probe) losses() {
	const rows, cols = 33, 21
	x, labels := p.floats(rows*cols), p.ints(rows, -1, cols)
	loss, dlogits, idx := p.out(rows), p.out(rows*cols), p.alloc(I32, rows)
	total, top := p.out(1), p.out(1)
	p.d.CrossEntropy(loss, dlogits, x, labels, rows, cols)
	p.d.Argmax(idx, x, rows, cols)
	p.d.Sum(total, loss)
	p.d.MaxAbs(top, x)
	p.take(loss, dlogits, idx, total, top)
}

func (p *probe) update() {
	const n = 777
	g, q, x := p.floats(n), p.ints(n, -1<<20, 1<<20), p.ints(n, math.MinInt32, math.MaxInt32)
	params, m, v, squares := p.floats(n), p.floats(n), p.out(n), p.alloc(I32, 4)
	p.d.MatMul(NN, v, p.floats(1), p.floats(n), 1, n, 1, false)
	p.d.ReLU(v, v)
	p.d.Quantize(q, g, 20)
	p.d.AddI32(x, q)
	p.d.SumSquares(squares, x)
	p.d.AdamW(params, m, v, q, AdamW{Scale: 0x1p-20, LR: 1e-3, Decay: 5e-5, Beta1: 0.9, Beta2: 0.999, Eps: 1e-8,
		C1: 3.7, C2: 333.6})
	p.take(q, x, squares, params, m, v)
	random, g, params, m := p.ints(n, -1<<20, 1<<20), p.floats(n), p.floats(n), p.floats(n)
	v = p.out(n)
	p.d.Zero(v)
	p.d.QuantizeStochastic(random, g, 11, 0x5a17)
	p.d.AdamW(params, m, v, g, AdamW{Scale: 0x1p-4, LR: 1e-3, Decay: 5e-5, Beta1: 0.9, Beta2: 0.999, Eps: 1e-8, C1: 3.7, C2: 333.6})
	p.take(random, params, m, v)
}
