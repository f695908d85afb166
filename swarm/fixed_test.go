package swarm

import (
	"testing"

	"shoal/swarm/codec"
)

func TestFixedRefuses(t *testing.T) {
	for _, tc := range []struct{ rank, members int }{{0, 0}, {0, 1}, {-1, 2}, {2, 2}} {
		if _, err := NewFixed(nil, "run", tc.rank, make([]Contact, tc.members), codec.Off); err == nil {
			t.Errorf("rank %d of %d is taken", tc.rank, tc.members)
		}
	}
	if _, err := NewFixed(nil, "run", 0, make([]Contact, 2), codec.Off); err == nil {
		t.Error("no transport is taken")
	}
}
