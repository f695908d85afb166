package fsdp

import "cmp"

// Need is about how many bytes of memory this member needs for parameters, gradients and optimizer state in the view
// c.Start.View: at rest, and at most at one moment of a step, gathered units and gradients on their way included. What it
// holds for others counts. Without a view it is alone; a member that holds nothing yet is taken to get its share of
// everything, and of c.Backups copies. The activations come on top; they depend on the model and the microbatch.
func Need(c *Config) (rest, peak int64) {
	l := NewLayout(c.Model, c.Frozen)
	kept := strategies[c.Strategy]
	size, held := holds(c, l)
	if size == 1 {
		kept = shards{}
	}
	width := int64(c.ParamType.Size())
	var root, largest, all int64
	for i, u := range l.Units {
		trained, n, h := int64(u.Trained), int64(u.Len), held[i]
		all += n
		if i == 0 {
			root = n
		} else {
			largest = max(largest, n)
		}
		rest += 4*(h.own+h.backup) + 12*(h.ownTrained+h.backupTrained)
		if kept.params {
			rest += width * n
		}
		if kept.gradients {
			rest += 4 * (trained - h.ownTrained)
		}
	}
	gathered := 4 * (root + 2*largest)
	if c.KeepGathered {
		gathered = 4 * all
	}
	travelling := max((maxGiving+1)*width*max(root, largest), min(c.ahead(), 2*width*all))
	gradients := 4 * (root + largest + max(root, largest)) // fixed point of two units, float32 of one stage
	sending := max((maxSending+1)*4*max(root, largest), min(c.ahead()+4*max(root, largest), 4*all))
	if size == 1 {
		travelling = width * max(root, largest)
	} else if c.Backups != 0 {
		sending += 4 * all / int64(size) * int64(backups(c, size)) // sums on their way to backups
	}
	return rest, rest + gathered + travelling + gradients + sending
}

// ahead is Config.Ahead with its default.
func (c *Config) ahead() int64 { return int64(cmp.Or(c.Ahead, defaultAhead)) }

// backups is c.Backups among so many members.
func backups(c *Config, size int) int {
	if c.Backups < 0 {
		return size - 1
	}
	return min(c.Backups, size-1)
}

// share is how many elements of a unit a member has.
type share struct{ own, ownTrained, backup, backupTrained int64 }

// holds is what the member of Need has of each unit.
func holds(c *Config, l *Layout) (size int, held []share) {
	held = make([]share, len(l.Units))
	v, some := c.Start.View, false
	for k, r := range l.Ranges {
		own, backup := v == nil, false
		if v != nil && k < len(v.Owner) && k < len(v.Backups) {
			own = v.Owner[k] == v.Rank
			for _, b := range v.Backups[k] {
				backup = backup || b == v.Rank
			}
		}
		held[r.Unit].add(r, own, backup)
		some = some || own || backup
	}
	if v == nil {
		return 1, held
	}
	for i, u := range l.Units {
		if n := int64(v.Size); !some && n > 0 {
			b := int64(backups(c, v.Size))
			held[i] = share{(int64(u.Len) + n - 1) / n, (int64(u.Trained) + n - 1) / n, int64(u.Len) * b / n, int64(u.Trained) * b / n}
		}
	}
	return v.Size, held
}

func (s *share) add(r Range, own, backup bool) {
	n := int64(r.N)
	trained := n
	if r.Frozen {
		trained = 0
	}
	if own {
		s.own, s.ownTrained = s.own+n, s.ownTrained+trained
	}
	if backup {
		s.backup, s.backupTrained = s.backup+n, s.backupTrained+trained
	}
}
