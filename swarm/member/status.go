package member

import "shoal/internal/place"

// Leader is the member that leads as far as this one knows, or 0.
func (c *Core) Leader() uint64 {
	if c.rn == nil {
		return 0
	}
	return c.rn.BasicStatus().Lead
}

// Members lists all members by admission.
func (c *Core) Members() []Member { return c.st.Members }

// Voters lists the members that vote.
func (c *Core) Voters() []uint64 { return c.conf.GetVoters() }

// Run is the run's description.
func (c *Core) Run() []byte { return c.st.Run }

// Fence is the current fence, Applied the index of the last entry applied, and Generation the log's, see NextGeneration.
func (c *Core) Fence() uint64      { return c.st.Fence }
func (c *Core) Applied() uint64    { return c.log.applied }
func (c *Core) Generation() uint64 { return c.st.Generation }

// View is the current view, of number 0 before the first.
func (c *Core) View() View { return c.st.current(c.cfg.ID) }

// Ranges is what the model is cut into, Backups how many further holders each range is to have (or place.All), and
// Wanted the placement that fills lead to. Work is that of the current attempt, by rank. Not to be changed.
func (c *Core) Ranges() []place.Range { return c.st.ranges }
func (c *Core) Backups() int          { return c.st.Backups }
func (c *Core) Wanted() place.Map     { return c.st.want }
func (c *Core) Work() []int64         { return c.st.Work }

// Redundancy is the number of deaths that every range survives.
func (c *Core) Redundancy() int {
	if !c.st.started() {
		return 0
	}
	return c.st.have.Redundancy(c.placePeers(c.st.ViewIDs))
}

// Promise is the number of simultaneous deaths, whoever dies, after which the run goes on (PROTOCOL.md 18).
func (c *Core) Promise() int {
	return min(c.Redundancy(), (len(c.conf.GetVoters())-1)/2)
}

// Faults are the last removals of members, the newest last.
func (c *Core) Faults() []Fault {
	var list []Fault
	for _, f := range c.st.Faults {
		f.Ago = c.tick - c.faults[f.Index]
		list = append(list, f)
	}
	return list
}
