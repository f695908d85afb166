package fsdp

// Need is about how many bytes of memory rank needs for parameters, gradients and optimizer state in the run that c
// describes: at rest, and at most at one moment of a step, gathered units and gradients on their way included. The
// activations come on top; they depend on the model and the microbatch.
func Need(c *Config, rank int) (rest, peak int64) {
	l := NewLayout(c.Model, c.Weights, c.Frozen)
	s := shards{}
	if len(c.Weights) > 1 {
		s = strategies[c.Strategy]
	}
	width := int64(c.ParamType.Size())
	var root, largest, all int64
	for i, u := range l.Units {
		trained, n := int64(u.Trained), int64(u.Len)
		ownTrained, own := int64(u.Cuts[rank+1]-u.Cuts[rank]), int64(u.Owned(rank))
		all += n
		if i == 0 {
			root = n
		} else {
			largest = max(largest, n)
		}
		if !s.state {
			ownTrained, own = trained, n
		}
		rest += 4*own + 8*ownTrained
		if s.state && !s.params {
			rest += width * n
		}
		if s.gradients {
			rest += 4 * ownTrained
		} else {
			rest += 4 * trained
		}
	}
	gathered := 4 * (root + 2*largest)
	if c.KeepGathered {
		gathered = 4 * all
	}
	travelling := (maxGiving + 1) * width * max(root, largest)
	gradients := 4 * (root + largest + max(root, largest)) // fixed point of two units, float32 of one stage
	sending := (maxSending + 1) * 4 * max(root, largest)
	if len(c.Weights) == 1 {
		travelling = width * max(root, largest)
	}
	return rest, rest + gathered + travelling + gradients + sending
}
