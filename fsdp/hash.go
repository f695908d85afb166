package fsdp

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/bits"
)

// The state hash is a Merkle tree over the float32 master parameters, so that each owner hashes its own part and nobody
// needs the whole model. Per unit of the model (however Wrap joins them), and apart for trained and frozen elements: leaf = SHA-256(0x00 || up to 256 elements, little-endian), inner = SHA-256(0x01 ||
// left || right), the odd last node of a level is carried up unchanged. The state hash is SHA-256(0x02 || the roots in
// order).

// Node is one hash in a unit's tree. Level 0 are the leaves.
type Node struct {
	_     struct{} `cbor:",toarray"`
	Level uint8
	Index uint32
	Hash  [sha256.Size]byte
}

func leaves(n int) int { return (n + Granule - 1) / Granule }

func hashLeaf(data []byte) [sha256.Size]byte {
	h := sha256.New()
	h.Write([]byte{0})
	h.Write(data)
	return [sha256.Size]byte(h.Sum(nil))
}

func hashInner(l, r [sha256.Size]byte) [sha256.Size]byte {
	var b [1 + 2*sha256.Size]byte
	b[0] = 1
	copy(b[1:], l[:])
	copy(b[1+sha256.Size:], r[:])
	return sha256.Sum256(b[:])
}

// cover hashes the leaves [lo, hi) of a unit that has n of them into the fewest tree nodes. data are the bytes of the
// elements from leaf lo on.
func cover(lo, hi, n int, data []byte) []Node {
	var list []Node
	for at := lo; at < hi; {
		level := 0
		for at&(1<<level) == 0 && level < 31 && (at+(2<<level) <= hi || hi == n && at+(1<<level) < hi) {
			level++
		}
		end := min(at+1<<level, hi)
		list = append(list, Node{Level: uint8(level), Index: uint32(at >> level), Hash: subtree(at-lo, level, hi-lo, data)})
		at = end
	}
	return list
}

// subtree is the hash of the node of the given level that starts at leaf at, of n leaves whose bytes are data.
func subtree(at, level, n int, data []byte) [sha256.Size]byte {
	if level == 0 {
		return hashLeaf(data[at*Granule*4 : min(len(data), (at+1)*Granule*4)])
	}
	half := 1 << (level - 1)
	l := subtree(at, level-1, n, data)
	if at+half >= n {
		return l
	}
	return hashInner(l, subtree(at+half, level-1, n, data))
}

// hash covers what is owned here for the next Ready.
func (e *Engine) hash() error {
	defer e.did(e.doing(TraceHash, -1))
	vectors := e.layout.vectors()
	e.cover = make([][]Node, len(vectors))
	for i, v := range vectors {
		own := e.units[v.unit].own
		at := 0
		for _, r := range own.runs {
			lo, hi := max(r.off, v.off), min(r.off+r.n, v.off+v.n)
			if lo < hi {
				data := e.spare.take(4 * (hi - lo))
				if err := e.dev.Download(data, own.p.Slice(at+lo-r.off, hi-lo)); err != nil {
					return err
				}
				e.cover[i] = append(e.cover[i], cover((lo-v.off)/Granule, leaves(hi-v.off), leaves(v.n), data)...)
				e.spare.give(data)
			}
			at += r.n
		}
	}
	return nil
}

// A Hash is a state hash. In text and in JSON it is 64 hexadecimal digits.
type Hash [sha256.Size]byte

func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// MarshalText never fails.
func (h Hash) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// UnmarshalText refuses everything but 64 hexadecimal digits.
func (h *Hash) UnmarshalText(text []byte) error {
	if len(text) == hex.EncodedLen(len(h)) {
		if _, err := hex.Decode(h[:], text); err == nil {
			return nil
		}
	}
	return fmt.Errorf("fsdp: %.80q is no state hash", text)
}

// StepHash is the state hash after so many steps.
type StepHash struct {
	Step int  `json:"step"`
	Hash Hash `json:"hash"`
}

// hashed adds the state hash after a step, if the list does not go so far yet.
func (r *Result) hashed(step int, h Hash) {
	if n := len(r.StepHashes); n == 0 || r.StepHashes[n-1].Step < step {
		r.StepHashes = append(r.StepHashes, StepHash{step, h})
	}
}

// stateHash joins the covers of all owners: covers[i][v] are owner i's nodes of vector v.
func stateHash(l *Layout, covers [][][]Node) (string, error) {
	h := sha256.New()
	h.Write([]byte{2})
	vectors := l.vectors()
	for v, vec := range vectors {
		type key struct {
			level uint8
			index uint32
		}
		have := map[key][sha256.Size]byte{}
		for _, c := range covers {
			if len(c) != len(vectors) {
				return "", fmt.Errorf("fsdp: a state hash came with %d parts, want %d", len(c), len(vectors))
			}
			for _, n := range c[v] {
				have[key{n.Level, n.Index}] = n.Hash
			}
		}
		n := leaves(vec.n)
		if n == 0 {
			empty := sha256.Sum256(nil)
			h.Write(empty[:])
			continue
		}
		var root func(level, index int) ([sha256.Size]byte, error)
		root = func(level, index int) ([sha256.Size]byte, error) {
			if x, ok := have[key{uint8(level), uint32(index)}]; ok {
				return x, nil
			}
			if level == 0 {
				return [sha256.Size]byte{}, fmt.Errorf("fsdp: nobody hashed leaf %d of unit %s", index, l.Units[vec.unit].Name)
			}
			left, err := root(level-1, 2*index)
			if err != nil || (2*index+1)<<(level-1) >= n {
				return left, err
			}
			right, err := root(level-1, 2*index+1)
			return hashInner(left, right), err
		}
		x, err := root(bits.Len(uint(n-1)), 0)
		if err != nil {
			return "", err
		}
		h.Write(x[:])
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
