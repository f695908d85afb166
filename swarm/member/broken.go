package member

// broken turns rules of the protocol off, one by one, so that tests can show that the simulation finds out. Nothing
// outside of tests sets it.
type broken struct {
	noFence    bool // 1: an entry counts whatever fence it follows
	early      bool // 2: a leader proposes before it has applied an entry of its own term
	readyOnce  bool // 5: Ready is sent once
	fillersOwn bool // 6: who is being filled counts as a holder
	dropLast   bool // 8: a view may remove a range's last holder
	allRestore bool // 22: who can't read the checkpoint is in the view of a Restore, too
	keepStep   bool // 22: a Restore leaves the step as it was
	noResume   bool // 14: a gap counts as silence of the others
	confOnce   bool // 18: a change of voters is proposed once

	act func(*Core) bool // what a leader does besides, such as a view for a join in the middle of an attempt (17)
}
