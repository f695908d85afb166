package host

import (
	"math"
	"unsafe"
)

// pool keeps freed slices by length: a training step asks for the same lengths again and again.
type pool[T float32 | int32 | uint16] struct {
	free  map[int][][]T
	bytes int
}

func (p *pool[T]) get(n int) []T {
	l := p.free[n]
	if len(l) == 0 {
		return make([]T, n)
	}
	s := l[len(l)-1]
	p.free[n] = l[:len(l)-1]
	p.bytes -= size(s)
	return s
}

func (p *pool[T]) put(s []T) {
	if len(s) == 0 {
		return
	}
	if p.free == nil {
		p.free = map[int][][]T{}
	}
	p.bytes += size(s)
	p.free[len(s)] = append(p.free[len(s)], s)
}

func size[T float32 | int32 | uint16](s []T) int { return len(s) * int(unsafe.Sizeof(s[0])) }

func fillNaN(s []float32) {
	nan := float32(math.NaN())
	for i := range s {
		s[i] = nan
	}
}
