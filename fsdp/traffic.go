package fsdp

import "slices"

// Received is how many bytes of tensors this member receives in the run that c describes, before packing and framing, when
// the steps listed in retried (once per retry) are tried again, c.Start.View lasts to the end and every microbatch costs
// every member the same:
//
//	fsdp          per gather of unit u:  w * (P_u - own_u), once forward, and once backward for all but the root and last unit
//	zero2, zero1  per step and unit u:   w * (P_u - own_u)
//	all           per step and unit u:   g * own_u of the trained elements from each other member that computed a microbatch
//	all           per step and unit u:   s * backup_u of the trained elements' sums
//
// P_u is the number of elements of unit u, own_u and backup_u how many of them this member owns and holds for others, w 2
// for bf16 and 4 for fp32; g is 4 for sums in fixed32 and fp32, 2 in fixed16 (while they fit, as nearly all do) and bf16; s
// is 2 in fixed16, else 4. Both are 2 in the first try of a run, whose sums are all 0 where they are integers. A unit that
// every member holds, as all are under ddp, is not gathered, nor is any by a member that computes nothing. A step that is
// tried again needs no parameters again under zero2 and zero1, if every member computes. Without a view that fits the model
// it is 0.
func Received(c *Config, retried []int) int64 {
	l := NewLayout(c.Model, c.Frozen)
	if c.Start.View == nil {
		return 0
	}
	p, err := newPlacement(l, c.Start.View)
	if err != nil {
		return 0
	}
	var units []int
	for _, s := range c.Model.Stages() {
		units = append(units, s.Unit)
	}
	gathered := func(list []int) (n int64) {
		for _, u := range list {
			if !p.units[u].everywhere {
				n += int64(c.ParamType.Size()) * int64(l.Units[u].Len-p.units[u].all[p.Rank])
			}
		}
		return n
	}
	once := gathered(newWalk(units, false, false).gathers) // every unit
	perStep, kept := gathered(newWalk(units, true, c.KeepGathered).gathers), strategies[c.Strategy].params
	if kept {
		perStep = once
	}
	var total int64
	given, summed := c.Hyper.Reduce.wire()
	for step := range c.Hyper.Steps {
		shares := Deal(step, len(microbatches(len(c.Order(step)), c.Hyper.Microbatch)), make([]int64, p.Size))
		tries := int64(1)
		for i, again := range retried {
			switch {
			case again != step:
				continue
			case i == 0 && step == 0:
				total += p.reduced(shares, 2, 2)
			default:
				total += p.reduced(shares, given, summed)
			}
			tries++
		}
		total += p.reduced(shares, given, summed)
		if kept && !slices.ContainsFunc(shares, Share.idle) {
			tries = 1
		}
		if !shares[p.Rank].idle() {
			total += tries * perStep
		}
	}
	return total + p.evaluated(c, once, kept)
}

// evaluated is what arrives of parameters in the evaluation, if all of them are once bytes and kept under some strategies.
func (p *placement) evaluated(c *Config, once int64, kept bool) (n int64) {
	if c.Eval == nil {
		return 0
	}
	list := len(microbatches(c.Eval.Len(), c.Hyper.Microbatch))
	for round, left := 0, list; left > 0; round, left = round+1, left-evalPass(c.Hyper) {
		shares := Deal(round, min(left, evalPass(c.Hyper)), make([]int64, p.Size))
		if !shares[p.Rank].idle() {
			n += once
		}
		if kept && !slices.ContainsFunc(shares, Share.idle) {
			break
		}
	}
	return n
}

// reduced is what arrives of a step's gradients, if an element of a member's sum takes given bytes and one of all members'
// sum summed.
func (p *placement) reduced(shares []Share, given, summed int64) (n int64) {
	givers := int64(0)
	for r, s := range shares {
		if r != p.Rank && !s.idle() {
			givers++
		}
	}
	for _, u := range p.units {
		n += given * int64(u.trained[p.Rank]) * givers
	}
	for k, r := range p.layout.Ranges {
		if !r.Frozen && p.backs(k, p.Rank) {
			n += summed * int64(r.N)
		}
	}
	return n
}

// evalPass is how many microbatches one pass of the evaluation takes: eight training batches' worth, so that memory
// stays small.
func evalPass(h Hyper) int { return max(1, 8*h.Batch/h.Microbatch) }
