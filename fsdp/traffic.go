package fsdp

// Received is how many bytes of tensors rank receives in the run that c describes, before packing and framing, when
// the steps listed in retried (once per retry) are tried again:
//
//	fsdp  per gather of unit u:  width * (P_u - own_u), once forward, and once backward for all but the root and last unit
//	      per step and unit u:   4 * own_u from each other member that computed a microbatch
//	ddp   per step and unit u:   4 * own_u from each of those, and 4 * (P_u - own_u) of the others' sums
//
// P_u is the number of elements of unit u, own_u the number that rank owns, width 2 for bf16 and 4 for fp32.
func Received(c *Config, rank int, retried []int) int64 {
	l := NewLayout(c.Model, c.Weights)
	var units []int
	for _, s := range c.Model.Stages() {
		units = append(units, s.Unit)
	}
	own := func(u int) int64 { return int64(l.Units[u].Cuts[rank+1] - l.Units[u].Cuts[rank]) }
	rest := func(u int) int64 { return int64(l.Units[u].Len) - own(u) }
	gathered := func(w walk) (n int64) {
		if c.Strategy != FSDP {
			return 0
		}
		for _, u := range w.gathers {
			n += int64(c.ParamType.Size()) * rest(u)
		}
		return n
	}
	attempt := func(step int) (n int64) {
		n = gathered(newWalk(units, true, c.KeepGathered))
		givers := int64(0)
		for r, s := range Shares(step, len(microbatches(len(c.Order(step)), c.Hyper.Microbatch)), c.Weights) {
			if r != rank && s.First < s.Last {
				givers++
			}
		}
		for u := range l.Units {
			n += 4 * own(u) * givers
			if c.Strategy == DDP {
				n += 4 * rest(u)
			}
		}
		return n
	}
	var total int64
	for step := range c.Hyper.Steps {
		total += attempt(step)
	}
	for _, step := range retried {
		total += attempt(step)
	}
	if c.Eval != nil {
		total += int64(evalRounds(c)) * gathered(newWalk(units, false, false))
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
