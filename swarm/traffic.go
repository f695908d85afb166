package swarm

import (
	"sync/atomic"

	"shoal/swarm/wire"
)

// Traffic counts the bytes of one class and codec on this peer's streams since Start.
type Traffic struct {
	Class          string // parameters, gradients, forwards, state or control
	Codec          string // how a frame's payload was narrowed and packed; empty for control
	Sent, Received int64
}

const (
	lastKind  = wire.KindState
	lastCodec = wire.CodecHighPlanes
)

// frameCounts counts the bytes of frames with tensors, headers included, by kind and codec.
type frameCounts struct {
	sent, received [lastKind + 1][lastCodec + 1]atomic.Int64
}

// classes are the kinds of frames that carry tensors, as people call them.
var classes = map[wire.Kind]string{wire.KindParams: "parameters", wire.KindGradient: "gradients", wire.KindForward: "forwards", wire.KindState: "state"}

// codecs are what people call them: which half of an element is left doesn't matter to them.
var codecs = [lastCodec + 1]string{"raw", "packed", "narrowed", "narrowed-packed", "narrowed", "narrowed-packed"}

// list is what was counted, without what has never travelled.
func (f *frameCounts) list() (list []Traffic) {
	for k := range lastKind + 1 {
		at := map[string]int{} // by codec, in list
		for c, name := range codecs {
			t := Traffic{Class: classes[k], Codec: name, Sent: f.sent[k][c].Load(), Received: f.received[k][c].Load()}
			if t.Sent+t.Received == 0 {
				continue
			}
			i, there := at[name]
			if !there {
				at[name] = len(list)
				list = append(list, t)
				continue
			}
			list[i].Sent += t.Sent
			list[i].Received += t.Received
		}
	}
	return list
}
