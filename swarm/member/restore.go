package member

import (
	"errors"
	"fmt"
	"slices"

	"shoal/swarm/wire"
)

// When nobody is left who holds some range, the run goes back to the newest checkpoint that a living member can read
// (PROTOCOL.md 8, 22). The log knows which checkpoints are whole, by the Commit or Retry that has made them so; members say
// in their beats which one they can read. A Restore is a View whose members all begin with that checkpoint, as those of a
// run that is started with it: all that was decided after it counts no more, and nothing is under way. Who can't read it
// stays a member and comes in with the next Commit.

// Saved is a checkpoint of which the log knows that it is whole.
type Saved struct {
	Name string `cbor:"1,keyasint"` // its own, such as a hash
	Step int    `cbor:"2,keyasint"` // for people: steps before it
	Run  []byte `cbor:"3,keyasint"` // the description of a run that goes on from it
}

// maxSaved is how many checkpoints the log remembers.
const maxSaved = 8

func (s *Saved) check() error {
	switch {
	case s.Name == "" || len(s.Name) > wire.MaxText:
		return fmt.Errorf("checkpoint with a name of %d bytes, must be 1 to %d", len(s.Name), wire.MaxText)
	case len(s.Run) > wire.MaxRun:
		return fmt.Errorf("checkpoint with a description of %d bytes, at most %d", len(s.Run), wire.MaxRun)
	}
	return nil
}

func (s *Saved) goingBack() string {
	return fmt.Sprintf("going back to the checkpoint of step %d", s.Step)
}

// save remembers a checkpoint, if there is one.
func (s *state) save(c *Saved) {
	if c == nil {
		return
	}
	s.Saved = append(slices.Clip(s.Saved), *c)
	s.Saved = s.Saved[max(0, len(s.Saved)-maxSaved):]
}

// goBack makes the run one that goes on from a checkpoint and has decided nothing yet. Newer checkpoints are none any more:
// the run comes to their steps again.
func (s *state) goBack(index uint64, name string) error {
	i := slices.IndexFunc(s.Saved, func(c Saved) bool { return c.Name == name })
	if i < 0 {
		return errors.New("a Restore to a checkpoint that the log doesn't know")
	}
	s.Run, s.Saved = s.Saved[i].Run, slices.Clip(s.Saved[:i+1])
	if !s.broken.keepStep {
		s.Payload = nil
	}
	s.Tries, s.Lates, s.Restored = 0, 0, index
	return nil
}

// newest is the newest checkpoint that any of ids can read, and those that can; nil if there is none.
func (s *state) newest(ids []uint64, reads func(id uint64) string) (*Saved, []uint64) {
	for i := range slices.Backward(s.Saved) {
		can := slices.DeleteFunc(slices.Clone(ids), func(id uint64) bool { return reads(id) != s.Saved[i].Name })
		if len(can) > 0 {
			return &s.Saved[i], can
		}
	}
	return nil, nil
}

// SetSaved says which is the newest checkpoint of the run that this member can read, all by itself; "" is none. Others are
// told by the next beat.
func (c *Core) SetSaved(name string) { c.saved = name }

// CanRead is what SetSaved was told last.
func (c *Core) CanRead() string { return c.saved }

// reads is the newest checkpoint that a member can read, as far as that is known.
func (c *Core) reads(id uint64) string {
	if p := c.peers[id]; p != nil {
		return p.saved
	}
	return c.saved
}

// livingInView are the members of the view that are neither lost nor leaving, by rank.
func (c *Core) livingInView() []uint64 {
	return slices.DeleteFunc(slices.Clone(c.st.ViewIDs), func(id uint64) bool {
		p := c.peers[id]
		return p != nil && c.lost(p) || c.farewell(id) != ""
	})
}

// restoreWithout proposes that the run go back to a checkpoint, without those of the view that are lost.
func (c *Core) restoreWithout(dead []Member) bool {
	alive := append(c.livingInView(), c.arrived()...)
	saved, ids := c.st.newest(alive, c.reads)
	if saved == nil {
		return false
	}
	if c.cfg.broken.allRestore {
		ids = alive
	}
	p := c.afresh(ids)
	p.reason = c.nobodyHolds(c.unheld(dead), dead) + ": " + saved.goingBack()
	r := p.record(recordRestore)
	r.Name = saved.Name
	for _, m := range dead {
		r.Lost = append(r.Lost, m.ID)
	}
	return c.proposeNext(r)
}

// startOver forgets how long attempts took, if the run has gone back to a checkpoint since the Restore at index before: who
// is to read one may take its time, as at the beginning.
func (c *Core) startOver(before uint64) {
	if c.st.Restored != before {
		c.pace = newPace()
		c.pace.since = c.tick
	}
}
