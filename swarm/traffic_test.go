package swarm

import (
	"slices"
	"testing"
	"testing/synctest"

	"shoal/swarm/codec"
	"shoal/swarm/wire"
)

// Each class is told by codec, the halves of an element together, and what never travelled isn't told.
func TestFrameCounts(t *testing.T) {
	var f frameCounts
	f.sent[wire.KindParams][wire.CodecRaw].Add(5)
	f.received[wire.KindGradient][wire.CodecLow].Add(7)
	f.sent[wire.KindGradient][wire.CodecHigh].Add(3)
	f.sent[wire.KindState][wire.CodecPlanes].Add(2)
	f.received[wire.KindForward][wire.CodecHighPlanes].Add(1)
	want := []Traffic{{"parameters", "raw", 5, 0}, {"gradients", "narrowed", 3, 7}, {"forwards", "narrowed-packed", 0, 1}, {"state", "packed", 2, 0}}
	got := f.list()
	if !slices.Equal(got, want) {
		t.Errorf("it tells %+v, want %+v", got, want)
	}
}

// What is told by class and codec is all that has been sent, and received.
func TestTrafficOfExchange(t *testing.T) {
	for _, packing := range []codec.Packing{codec.Off, codec.On} {
		synctest.Test(t, func(t *testing.T) {
			m := newMesh(t, 3, meshConfig{packing: packing})
			m.attempts([]layout{{[]int{0, 100, 300, 300}}}, 1)
			synctest.Wait()
			var sent, received, want int64
			for _, x := range m.x {
				for _, n := range x.stats().ClassSent {
					want += int64(n)
				}
				for _, c := range x.count.list() {
					sent += c.Sent
					received += c.Received
				}
			}
			if sent != want || received != want || want == 0 {
				t.Errorf("packing %v: %d bytes sent, %d received, want %d", packing, sent, received, want)
			}
		})
	}
}
