package fsdp

// byteList keeps byte slices for reuse by length, so that a step makes no garbage once the first one is over. It
// belongs to the engine's goroutine.
type byteList map[int][][]byte

// take returns n bytes with undefined contents.
func (l byteList) take(n int) []byte {
	if free := l[n]; len(free) > 0 {
		l[n] = free[:len(free)-1]
		return free[len(free)-1]
	}
	return make([]byte, n)
}

// give hands b back.
func (l byteList) give(b []byte) {
	if len(b) > 0 {
		l[len(b)] = append(l[len(b)], b)
	}
}
