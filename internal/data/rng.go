package data

// golden is 2^64 divided by the golden ratio, the increment of SplitMix64.
const golden = 0x9e3779b97f4a7c15

// mix is the finaliser of SplitMix64 (Steele, Lea and Flood 2014, with Stafford's constants): a bijection of 64 bits in
// which each input bit flips each output bit with probability one half.
func mix(x uint64) uint64 {
	x += golden
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// draws is the counter-based generator of one key: draw i is a function of (key, i) alone.
type draws struct{ key, i uint64 }

func (d *draws) next() uint64 {
	d.i++
	return mix(d.key + d.i*golden)
}

// around is uniform in [-r, r], for r below 2^31.
func (d *draws) around(r int64) int64 {
	return int64(d.next()>>32*uint64(2*r+1)>>32) - r
}

// bell is approximately normal with mean 0: the sum of four 16-bit uniforms, whose standard deviation is 37837.
func (d *draws) bell() int64 {
	x := d.next()
	return int64(x&0xffff+x>>16&0xffff+x>>32&0xffff+x>>48) - 2*0xffff
}
