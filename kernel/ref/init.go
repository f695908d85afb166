package ref

// Initial values come from a counter-based generator: each is a function of (key, index), so every owner makes just its
// own interval. The mixer is SplitMix64 (Steele, Lea and Flood 2014, "Fast splittable pseudorandom number generators").

const golden = 0x9e3779b97f4a7c15

func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// Hash64 is the generator's key for a name, which may be in parts, under a seed: FNV-1a of the name, mixed with the seed.
func Hash64(seed uint64, name ...string) uint64 {
	h := uint64(0xcbf29ce484222325)
	for _, part := range name {
		for i := range len(part) {
			h = (h ^ uint64(part[i])) * 0x100000001b3
		}
	}
	return mix(h ^ mix(seed+golden))
}

// Counter is the index-th 64-bit value under key.
func Counter(key, index uint64) uint64 { return mix(key + (index+1)*golden) }

// FillUniform writes values in [-a, a) with 24 random bits each; dst[i] is the value of index first+i.
func FillUniform(dst []float32, key uint64, first int, a float32) {
	for i := range dst {
		u := float32(float32(Counter(key, uint64(first+i))>>40) * 0x1p-23) // [0, 2), exact
		dst[i] = (u - 1) * a
	}
}

// FillNormal writes values of mean 0 and standard deviation std, nearly normal: the sum of four 16-bit uniforms,
// bounded by 3.47 std. dst[i] is the value of index first+i.
func FillNormal(dst []float32, key uint64, first int, std float32) {
	const (
		mean = 4 * 65535 / 2
		unit = 1 / 37837.226 // 1 / the sum's standard deviation, sqrt((2^32 - 1) / 3)
	)
	for i := range dst {
		c := Counter(key, uint64(first+i))
		sum := c&0xffff + c>>16&0xffff + c>>32&0xffff + c>>48
		dst[i] = float32(float32(int64(sum)-mean)*unit) * std
	}
}
