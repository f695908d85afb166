package fsdp

// Received is how many bytes of tensors rank receives in the run that c describes, before packing and framing, when
// the steps listed in retried (once per retry) are tried again:
//
//	fsdp          per gather of unit u:  w * (P_u - own_u), once forward, and once backward for all but the root and last unit
//	zero2, zero1  per step and unit u:   w * (P_u - own_u)
//	all           per step and unit u:   g * own_u of the trained elements from each other member that computed a microbatch
//	ddp           per step and unit u:   s * (P_u - own_u) of the trained elements' sums
//
// P_u is the number of elements of unit u, own_u the number that rank owns, w 2 for bf16 and 4 for fp32; g is 4 for sums
// in fixed32 and fp32, 2 in fixed16 (while they fit, as nearly all do) and bf16; s is 2 in fixed16, else 4. Both are 2 in
// the first try of a run, whose sums are all 0 where they are integers. A step that is tried again needs no parameters
// again under zero2 and zero1.
func Received(c *Config, rank int, retried []int) int64 {
	l := NewLayout(c.Model, c.Weights, c.Frozen)
	var units []int
	for _, s := range c.Model.Stages() {
		units = append(units, s.Unit)
	}
	gathered := func(list []int) (n int64) {
		for _, u := range list {
			n += int64(c.ParamType.Size()) * int64(l.Units[u].Len-l.Units[u].Owned(rank))
		}
		return n
	}
	once := gathered(newWalk(units, false, false).gathers) // every unit
	reduced := func(step int, given, summed int64) (n int64) {
		givers := int64(0)
		for r, s := range Shares(step, len(microbatches(len(c.Order(step)), c.Hyper.Microbatch)), c.Weights) {
			if r != rank && s.First < s.Last {
				givers++
			}
		}
		for _, u := range l.Units {
			own := int64(u.Cuts[rank+1] - u.Cuts[rank])
			n += given * own * givers
			if c.Strategy == DDP {
				n += summed * (int64(u.Trained) - own)
			}
		}
		return n
	}
	var total int64
	given, summed := c.Hyper.Reduce.wire()
	for step := range c.Hyper.Steps {
		total += reduced(step, given, summed)
	}
	for i, step := range retried {
		if i == 0 && step == 0 {
			total += reduced(step, 2, 2)
		} else {
			total += reduced(step, given, summed)
		}
	}
	steps, passes := int64(c.Hyper.Steps), int64(0)
	if c.Eval != nil {
		passes = int64(evalRounds(c))
	}
	switch c.Strategy {
	case FSDP:
		attempt := gathered(newWalk(units, true, c.KeepGathered).gathers)
		total += (steps+int64(len(retried)))*attempt + passes*once
	case Zero2, Zero1:
		total += (steps + min(1, passes)) * once
	}
	return total
}

// evalRounds is how many passes the evaluation takes.
func evalRounds(c *Config) int {
	list := len(microbatches(c.Eval.Len(), c.Hyper.Microbatch))
	return (list + evalPass(c.Hyper) - 1) / evalPass(c.Hyper)
}

// evalPass is how many microbatches one pass of the evaluation takes: eight training batches' worth, so that memory
// stays small.
func evalPass(h Hyper) int { return max(1, 8*h.Batch/h.Microbatch) }
