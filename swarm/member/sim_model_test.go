package member

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/bits"
	"slices"

	"shoal/internal/place"
)

// toy is what simulated members train: one number for each range. A step's gradients depend on all of them, as those of
// a network do, and on the exponents in force; an update depends on the gradient of its range and on the decision. So
// whatever is lost, counted twice or taken from another attempt shows in all numbers that follow.
type toy struct {
	seed   uint64
	ranges []place.Range // at most 64
	micro  int           // microbatches of a step, at most 64
	steps  int
	saves  int // steps from one checkpoint to the next; 0: there are none
}

// outcome is the payload of a Commit, Retry or Done.
type outcome struct {
	Kind, Step int64
	Used, Next [2]int64 // exponents: of the attempt that ends, of the one that begins
	Scale      uint64
	Loss       uint64
	Samples    int64
	Hash       uint64 // of all ranges before the step
}

// report is the payload of a Ready.
type report struct {
	Step  int64
	Exps  [2]int64
	Micro uint64 // the microbatches computed here, a bit each
	Max   [2]int64
	Loss  uint64
	Owned uint64 // the ranges owned here, a bit each
	Norm  uint64 // of their gradients
	State uint64 // of their values before the step
}

func pack(v any) []byte {
	b, err := binary.Append(nil, binary.BigEndian, v)
	if err != nil {
		panic(err)
	}
	return b
}

func unpack[T any](b []byte) (v T) {
	if _, err := binary.Decode(b, binary.BigEndian, &v); err != nil {
		panic(err)
	}
	return v
}

// mix hashes numbers.
func mix(v ...uint64) uint64 {
	h := uint64(0x9e3779b97f4a7c15)
	for _, x := range v {
		h ^= x
		h *= 0xbf58476d1ce4e5b9
		h ^= h >> 27
		h *= 0x94d049bb133111eb
		h ^= h >> 31
	}
	return h
}

func (o outcome) final() bool {
	return EntryKind(o.Kind) == EntryCommit || EntryKind(o.Kind) == EntryDone
}

// point is where a run goes on from a checkpoint; its description has it behind the word "run".
type point struct {
	Step int64
	Exps [2]int64
}

// following is which step comes after a payload, in a run with that description, and the exponents in force; -1: none yet.
func following(run, payload []byte) (step int64, exps [2]int64) {
	if payload == nil {
		if from := run[len("run"):]; len(from) > 0 {
			p := unpack[point](from)
			return p.Step, p.Exps
		}
		return 0, [2]int64{-1, -1}
	}
	o := unpack[outcome](payload)
	if o.final() {
		o.Step++
	}
	return o.Step, o.Next
}

func (y *toy) first(r int) uint64 { return mix(y.seed, 1, uint64(r)) }

// params is what computing sees of all ranges.
func (y *toy) params(values []uint64) uint64 { return mix(append([]uint64{y.seed, 2}, values...)...) }

func (y *toy) gradient(params uint64, step int64, exps [2]int64, m, r int) uint64 {
	return mix(params, 3, uint64(step), uint64(exps[0]), uint64(exps[1]), uint64(m), uint64(r))
}

func (y *toy) loss(params uint64, m int) uint64 { return mix(params, 4, uint64(m)) >> 16 }

// maxima are a microbatch's largest gradients in each of two tensors; they jump in every seventh step or so.
func (y *toy) maxima(params uint64, step int64, m int) (top [2]int64) {
	for t := range top {
		top[t] = int64(mix(params, 5, uint64(m), uint64(t)) % 4)
		if mix(y.seed, 6, uint64(step))%7 == 0 {
			top[t] += 20
		}
	}
	return top
}

func (y *toy) update(value uint64, o outcome, r int, sum uint64) uint64 {
	return mix(value, 7, uint64(o.Step), o.Scale, uint64(o.Used[0]), uint64(o.Used[1]), uint64(r), sum)
}

func (y *toy) norm(r int, sum uint64) uint64    { return mix(8, uint64(r), sum) }
func (y *toy) state(r int, value uint64) uint64 { return mix(9, uint64(r), value) }

// deal gives microbatches to ranks: each rank whose work isn't -1 takes turns, beginning with another one in each step.
func (y *toy) deal(step int64, work []int64) []uint64 {
	var able []int
	for r, w := range work {
		if w >= 0 {
			able = append(able, r)
		}
	}
	share := make([]uint64, len(work))
	for m := range y.micro {
		share[able[(m+int(step))%len(able)]] |= 1 << m
	}
	return share
}

// all has a bit for each of n.
func all(n int) uint64 { return 1<<n - 1 }

// decide is Config.Decide. It also asserts what it is told, by fault.
func (y *toy) decide(run, prev []byte, work []int64, readies [][]byte, fault func(format string, args ...any)) Decision {
	step, exps := following(run, prev)
	o := outcome{Kind: int64(EntryCommit), Step: step, Used: exps}
	var micro, owned, norm uint64
	for rank, b := range readies {
		r := unpack[report](b)
		if r.Step != step || r.Exps != exps {
			fault("7: decided on step %d with exponents %v, but rank %d is ready for step %d with %v", step, exps, rank, r.Step, r.Exps)
		}
		if micro&r.Micro != 0 || owned&r.Owned != 0 {
			fault("6: step %d: rank %d counts microbatches %b or ranges %b that others have counted", step, rank, r.Micro, r.Owned)
		}
		micro, owned = micro|r.Micro, owned|r.Owned
		norm, o.Loss, o.Hash = norm+r.Norm, o.Loss+r.Loss, o.Hash+r.State
		o.Samples += 3 * int64(bits.OnesCount64(r.Micro))
		for t := range o.Next {
			o.Next[t] = max(o.Next[t], r.Max[t])
		}
	}
	if micro != all(y.micro) || owned != all(len(y.ranges)) {
		fault("6: step %d: decided on microbatches %b and ranges %b", step, micro, owned)
	}
	d := Decision{Kind: EntryCommit, Work: y.pace(step, work), Saved: y.saved(prev, step, exps)}
	for t, top := range o.Next {
		if exps[t] < 0 || top > exps[t]+4 {
			d.Kind = EntryRetry
		}
	}
	if d.Kind == EntryRetry {
		d.Payload = pack(outcome{Kind: int64(EntryRetry), Step: step, Used: exps, Next: o.Next})
		return d
	}
	if step == int64(y.steps)-1 {
		d.Kind = EntryDone
	}
	o.Kind, o.Scale = int64(d.Kind), mix(norm, o.Loss)
	d.Payload = pack(o)
	return d
}

// saved is the checkpoint of the state before a step, whole once the first attempt at the step has ended.
func (y *toy) saved(prev []byte, step int64, exps [2]int64) *Saved {
	if y.saves == 0 || step == 0 || step%int64(y.saves) != 0 || prev == nil || !unpack[outcome](prev).final() {
		return nil
	}
	return &Saved{Name: savedName(step), Step: int(step), Run: append([]byte("run"), pack(point{step, exps})...)}
}

func savedName(step int64) string { return fmt.Sprintf("step %d", step) }

// pace is the work of the next attempt: mostly as before, sometimes other costs, sometimes none for one rank.
func (y *toy) pace(step int64, work []int64) []int64 {
	h := mix(y.seed, 10, uint64(step))
	if h%3 > 0 {
		return nil
	}
	next := slices.Clone(work)
	for r := range next {
		next[r] = int64(mix(h, uint64(r)) % 1000)
	}
	if h%2 == 0 && len(next) > 1 {
		next[int(h/6)%len(next)] = -1
	}
	return next
}

// truth is the run of one member, which every other must repeat.
type truth struct {
	payload [][]byte   // by step: of its Commit or Done
	values  [][]uint64 // by step: of all ranges before it; one more for the end
}

func (y *toy) solve() *truth {
	var tr truth
	values := make([]uint64, len(y.ranges))
	for r := range values {
		values[r] = y.first(r)
	}
	var prev []byte
	for len(tr.payload) < y.steps {
		step, exps := following([]byte("run"), prev)
		p := y.params(values)
		rep := report{Step: step, Exps: exps, Micro: all(y.micro), Owned: all(len(y.ranges))}
		sums := make([]uint64, len(values))
		for m := range y.micro {
			rep.add(y, p, m)
			for r := range sums {
				sums[r] += y.gradient(p, step, exps, m, r)
			}
		}
		for r := range sums {
			rep.Norm += y.norm(r, sums[r])
			rep.State += y.state(r, values[r])
		}
		d := y.decide([]byte("run"), prev, []int64{0}, [][]byte{pack(rep)}, func(string, ...any) { panic("one member disagrees with itself") })
		prev = d.Payload
		if o := unpack[outcome](prev); o.final() {
			tr.payload, tr.values = append(tr.payload, prev), append(tr.values, slices.Clone(values))
			for r := range values {
				values[r] = y.update(values[r], o, r, sums[r])
			}
		}
	}
	tr.values = append(tr.values, values)
	return &tr
}

// add takes a microbatch into a Ready.
func (rep *report) add(y *toy, params uint64, m int) {
	rep.Micro |= 1 << m
	rep.Loss += y.loss(params, m)
	for t, top := range y.maxima(params, rep.Step, m) {
		rep.Max[t] = max(rep.Max[t], top)
	}
}

// same says whether a final payload is the one of the one-member run.
func (tr *truth) same(payload []byte) bool {
	o := unpack[outcome](payload)
	return o.final() && o.Step < int64(len(tr.payload)) && bytes.Equal(payload, tr.payload[o.Step])
}
