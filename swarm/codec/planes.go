package codec

import "encoding/binary"

// split writes byte p of each element of src to planes[p]; each plane has one byte per element.
func split(planes [][]byte, src []byte) {
	switch len(planes) {
	case 2:
		split2(planes[0], planes[1], src)
	case 4:
		split4(planes[0], planes[1], planes[2], planes[3], src)
	}
}

// join is the reverse of split.
func join(dst []byte, planes [][]byte) {
	switch len(planes) {
	case 2:
		join2(dst, planes[0], planes[1])
	case 4:
		join4(dst, planes[0], planes[1], planes[2], planes[3])
	}
}

// evenBytes gathers bytes 0, 2, 4 and 6 of v.
func evenBytes(v uint64) uint32 {
	v &= 0x00ff00ff00ff00ff
	v = (v | v>>8) & 0x0000ffff0000ffff
	return uint32(v | v>>16)
}

// spreadBytes is the reverse of evenBytes: it puts the bytes of v at 0, 2, 4 and 6.
func spreadBytes(v uint32) uint64 {
	x := uint64(v)
	x = (x | x<<16) & 0x0000ffff0000ffff
	return (x | x<<8) & 0x00ff00ff00ff00ff
}

func split2(a, b, src []byte) {
	i := 0
	for ; i+4 <= len(a); i += 4 {
		v := binary.LittleEndian.Uint64(src[2*i:])
		binary.LittleEndian.PutUint32(a[i:], evenBytes(v))
		binary.LittleEndian.PutUint32(b[i:], evenBytes(v>>8))
	}
	for ; i < len(a); i++ {
		a[i], b[i] = src[2*i], src[2*i+1]
	}
}

func join2(dst, a, b []byte) {
	i := 0
	for ; i+4 <= len(a); i += 4 {
		lo, hi := binary.LittleEndian.Uint32(a[i:]), binary.LittleEndian.Uint32(b[i:])
		binary.LittleEndian.PutUint64(dst[2*i:], spreadBytes(lo)|spreadBytes(hi)<<8)
	}
	for ; i < len(a); i++ {
		dst[2*i], dst[2*i+1] = a[i], b[i]
	}
}

func split4(a, b, c, d, src []byte) {
	b, c, d, src = b[:len(a)], c[:len(a)], d[:len(a)], src[:4*len(a)]
	for i := range a {
		v := binary.LittleEndian.Uint32(src[4*i:])
		a[i], b[i], c[i], d[i] = byte(v), byte(v>>8), byte(v>>16), byte(v>>24)
	}
}

func join4(dst, a, b, c, d []byte) {
	b, c, d, dst = b[:len(a)], c[:len(a)], d[:len(a)], dst[:4*len(a)]
	for i := range a {
		v := uint32(a[i]) | uint32(b[i])<<8 | uint32(c[i])<<16 | uint32(d[i])<<24
		binary.LittleEndian.PutUint32(dst[4*i:], v)
	}
}
