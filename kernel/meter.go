package kernel

import "sync"

// Class says what a buffer holds, for the report's memory table.
type Class uint8

const (
	Parameters   Class = iota // own shard of the parameters: master copy, and the copy that travels
	Gradients                 // own shard of the reduced gradient
	Optimizer                 // own shard of the optimizer state
	Backups                   // shards held for others
	Gathered                  // borrowed units, and what they arrive in
	GradientWork              // whole-unit gradients before they are given back
	Activations               // stage inputs and what a stage keeps for its backward pass
	Other                     // everything else
	NumClasses
)

func (c Class) String() string {
	return [...]string{"parameters", "gradients", "optimizer", "backups", "gathered", "gradient work", "activations",
		"other", "?"}[min(c, NumClasses)]
}

// Meter counts the bytes of live buffers by class, and the most there ever were. The zero Meter is ready; it is safe
// for several goroutines.
type Meter struct {
	mu         sync.Mutex
	live, peak [NumClasses]int64
}

// Add counts n more bytes of class c (fewer if n is negative).
func (m *Meter) Add(c Class, n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.live[c] += n
	m.peak[c] = max(m.peak[c], m.live[c])
}

// Live is the number of bytes of class c in use now.
func (m *Meter) Live(c Class) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.live[c]
}

// Peak is the largest value that Live(c) has had.
func (m *Meter) Peak(c Class) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.peak[c]
}
