// Package swarm joins peers into a run: the run's log, which says who takes part, who holds what and which steps are
// final, and the collectives that move parameters, gradients and state between the members of the view.
//
// A caller goes through a Node:
//
//	node, err := swarm.Start(ctx, cfg)      // creates the run, or returns when this peer is admitted to it
//	entry, err := node.View(ctx)            // waits for the first view that this member is in
//	for {
//		attempt, err := node.Begin(ctx, entry.Fence, sink)
//		... node.AllGather, node.Give ...   // until attempt ends; errors that wrap ErrAttempt end no more than that
//		node.Ready(payload)                 // done with the attempt
//		entry, err = node.Next(ctx)         // how it ended, the same for everybody; entry.Fence is the next attempt,
//	}                                       // entry.View, if it is set, the view that begins
//	node.Close()                            // after Leave(reason), if it is for a reason of one's own
//
// Start also is the loop's owner: one goroutine drives the log (node_loop.go), each other member has a goroutine that
// dials it and sends (control_link.go), each incoming stream one that reads (control.go). Close ends and awaits them all.
//
// When a member dies, the log ends the attempt by a view without it, and the same step goes on among the others. Only
// control streams decide that: a broken data stream is opened again, if need be by way of a third member (relay.go), also
// where a path has broken without a word (detour.go). A
// member that can't go on with an attempt says nothing, and waits for what the log makes of it. Where the log itself can't
// go on, for lack of a majority, it waits, until that is back or Recover begins it anew (recover.go).
//
// The log itself is in swarm/member, bytes on the wire are in swarm/wire and swarm/codec.
package swarm
