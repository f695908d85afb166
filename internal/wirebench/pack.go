package wirebench

import (
	"context"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"shoal/internal/median"
	"shoal/swarm/codec"
)

// Class is a kind of tensor that travels, and what packing does to it.
type Class struct {
	Name   string  `json:"class"`
	Width  int     `json:"bytes"`              // of a value
	Packed float64 `json:"packed_bytes"`       // of a value, on average
	Pack   float64 `json:"pack_mb_per_second"` // of bytes before packing, on one core
	Unpack float64 `json:"unpack_mb_per_second"`
	Pays   bool    `json:"pays"` // what packing auto would do on this link
}

// values are how many of a class are packed: two frames of the wide ones.
const values = 1 << 19

// packing measures each class, and lets it be decided for a link of that rate.
func packing(ctx context.Context, link Rate) ([]Class, error) {
	speed := &codec.Link{}
	speed.Wrote(message, time.Duration(message/link.MBS*float64(time.Microsecond)))
	var all []Class
	for _, t := range []struct {
		name  string
		width int
		draw  func(*rand.Rand) []byte
	}{
		{"parameters, bf16", 2, bf16s},
		{"parameters, float32", 4, float32s},
		{"gradients, fixed32", 4, fixed32s},
	} {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		c := Class{Name: t.name, Width: t.width}
		if err := c.measure(speed, t.draw(rand.New(rand.NewPCG(1, 2)))); err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	return all, nil
}

// measure packs and unpacks data frame by frame, as senders and receivers do.
func (c *Class) measure(link *codec.Link, data []byte) error {
	choose := codec.NewChooser(codec.Auto, link)
	var packing, unpacking []float64
	raw, wire := 0, 0
	back := make([]byte, message)
	packed := make([]byte, 0, codec.MaxPacked(message, c.Width))
	for chunk := range slices.Chunk(data, message) {
		start := time.Now()
		packed, err := codec.Pack(packed[:0], chunk, c.Width)
		took := time.Since(start)
		if err != nil {
			return err
		}
		start = time.Now()
		if err := codec.Unpack(back[:len(chunk)], packed, c.Width); err != nil {
			return err
		}
		packing, unpacking = append(packing, rate(chunk, took)), append(unpacking, rate(chunk, time.Since(start)))
		raw, wire = raw+len(chunk), wire+min(len(packed), len(chunk))
		choose.Packed(len(chunk), len(packed), took)
	}
	c.Packed = float64(c.Width) * float64(wire) / float64(raw)
	c.Pack, c.Unpack, c.Pays = median.Of(packing), median.Of(unpacking), choose.On()
	return nil
}

// rate is in 10^6 bytes a second.
func rate(b []byte, took time.Duration) float64 { return float64(len(b)) / 1e6 / took.Seconds() }

// float32s are parameters as layers begin with.
func float32s(r *rand.Rand) (b []byte) {
	for range values {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(0.02*r.NormFloat64())))
	}
	return b
}

// bf16s are the upper halves of float32s.
func bf16s(r *rand.Rand) (b []byte) {
	for range values {
		b = binary.LittleEndian.AppendUint16(b, uint16(math.Float32bits(float32(0.02*r.NormFloat64()))>>16))
	}
	return b
}

// fixed32s are gradients as integers: of rows whose sizes differ, and with room for sums.
func fixed32s(r *rand.Rand) (b []byte) {
	const row = 1 << 10
	for range values / row {
		size := math.Exp(r.NormFloat64()) * (1 << 20)
		for range row {
			b = binary.LittleEndian.AppendUint32(b, uint32(int32(max(-1<<30, min(1<<30, size*r.NormFloat64())))))
		}
	}
	return b
}
