package data

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/bits"
)

// Hash is a SHA-256, written as 64 hexadecimal digits.
type Hash [sha256.Size]byte

func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// MarshalText is String.
func (h Hash) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// UnmarshalText is MarshalText's inverse.
func (h *Hash) UnmarshalText(text []byte) error {
	if len(text) != hex.EncodedLen(len(h)) {
		return fmt.Errorf("a hash has %d hexadecimal digits, not %d", hex.EncodedLen(len(h)), len(text))
	}
	_, err := hex.Decode(h[:], text)
	return err
}

// leaf is the hash of a leaf with this content. Leaves and inner nodes are told apart by their first byte, so that no
// node passes for a leaf (RFC 6962, section 2.1).
func leaf(content []byte) Hash {
	h := sha256.New()
	h.Write([]byte{0})
	h.Write(content)
	return Hash(h.Sum(nil))
}

func node(left, right Hash) Hash {
	var b [1 + 2*sha256.Size]byte
	b[0] = 1
	copy(b[1:], left[:])
	copy(b[1+sha256.Size:], right[:])
	return sha256.Sum256(b[:])
}

// merkleRoot is the root of the tree over leaves: the left part of each node has as many as the largest power of 2 that
// leaves something to the right (RFC 6962, section 2.1).
func merkleRoot(leaves []Hash) Hash {
	switch n := len(leaves); n {
	case 0:
		return sha256.Sum256(nil)
	case 1:
		return leaves[0]
	default:
		left := 1 << (bits.Len(uint(n-1)) - 1)
		return node(merkleRoot(leaves[:left]), merkleRoot(leaves[left:]))
	}
}
