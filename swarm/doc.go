// Package swarm joins peers into a run: the run's log, which says who takes part and which steps are final, and the
// collectives that move parameters and gradients between the members of the view.
//
// A caller goes through a Node:
//
//	node, err := swarm.Start(ctx, cfg)      // creates the run, or returns when this peer is admitted to it
//	view, err := node.View(ctx)             // waits until everybody is there; the first attempt is view.Fence
//	for {
//		node.Begin(fence, sink)
//		... node.AllGather, node.ReduceScatter ...
//		node.Ready(payload)                 // done with the attempt
//		entry, err := node.Next(ctx)        // how it ended, the same for everybody; entry.Fence is the next attempt
//	}
//	node.Close()                            // after Leave(reason), if it is for a reason of one's own
//
// Start also is the loop's owner: one goroutine drives the log (node_loop.go), each other member has a goroutine that
// dials it and sends (control_link.go), each incoming stream one that reads (control.go). Close ends and awaits them all.
//
// When a member is lost or leaves, the run ends for everybody: Next, View and the collectives return a *StoppedError
// that names it. A broken data stream is not the loss of a member; it is opened again. Only control streams decide.
//
// The log itself is in swarm/member, bytes on the wire are in swarm/wire and swarm/codec.
package swarm
