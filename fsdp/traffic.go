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
	p := c.placement()
	if p == nil {
		return 0
	}
	once := p.gathered(c, newWalk(c.visited(), false, false).gathers) // every unit
	perStep, kept := p.gathered(c, c.gathers()), strategies[c.Strategy].params
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
	for u := range p.units {
		n += p.reducedOf(u, givers, given, summed)
	}
	return n
}

// reducedOf is what arrives of one unit's gradient from so many members that computed.
func (p *placement) reducedOf(unit int, givers, given, summed int64) int64 {
	n := given * int64(p.units[unit].trained[p.Rank]) * givers
	for k := p.layout.Units[unit].first; k < p.layout.Units[unit].end; k++ {
		if r := p.layout.Ranges[k]; !r.Frozen && p.backs(k, p.Rank) {
			n += summed * int64(r.N)
		}
	}
	return n
}

// Edges is what of a step's traffic no computing hides, in bytes of tensors that this member receives if all compute:
// first, the parameters without which nobody can begin, and last, the gradient that nothing is left to compute beside,
// with its sums for backups. gathers is how many times a step brings parameters, each time when those before are there.
// It is for the Config of Received.
func Edges(c *Config) (first, last int64, gathers int) {
	p := c.placement()
	if p == nil {
		return 0, 0, 0
	}
	for _, u := range c.gathers() {
		if !p.units[u].everywhere {
			gathers++
		}
	}
	unit := c.visited()[0]
	given, summed := c.Hyper.Reduce.wire()
	return p.gathered(c, []int{unit}), p.reducedOf(unit, int64(p.Size-1), given, summed), gathers
}

// placement is that of c.Start.View; nil without one that fits the model.
func (c *Config) placement() *placement {
	if c.Start.View == nil {
		return nil
	}
	p, err := newPlacement(NewLayout(c.Model, c.Frozen), c.Start.View)
	if err != nil {
		return nil
	}
	return p
}

// visited are the units of the model's stages.
func (c *Config) visited() (units []int) {
	for _, s := range c.Model.Stages() {
		units = append(units, s.Unit)
	}
	return units
}

// gathers are the units that are gathered in a step, in order.
func (c *Config) gathers() []int {
	if strategies[c.Strategy].params {
		return newWalk(c.visited(), false, false).gathers
	}
	return newWalk(c.visited(), true, c.KeepGathered).gathers
}

// gathered is how many bytes of parameters arrive when the listed units are gathered.
func (p *placement) gathered(c *Config, list []int) (n int64) {
	for _, u := range list {
		if !p.units[u].everywhere {
			n += int64(c.ParamType.Size()) * int64(p.layout.Units[u].Len-p.units[u].all[p.Rank])
		}
	}
	return n
}

// evalPass is how many microbatches one pass of the evaluation takes: eight training batches' worth, so that memory
// stays small.
func evalPass(h Hyper) int { return max(1, 8*h.Batch/h.Microbatch) }
