// Package testnet runs several peers as separate processes on one machine: the first starts a run, each other one gets
// nothing but its link. It is what `shoal testnet` calls; tests call it too.
//
//	r, err := testnet.Run(ctx, testnet.Config{RunFile: &run, Peers: 4})
//
// Faults happen to them on purpose (fault.go): a child waits at the named point of a step (pause.go) until its parent has
// killed, stopped or interrupted it, and what came of it is computed from what the survivors told (measure.go). Matrix and
// Soak do that many times over.
//
// A child tells its parent how it goes by a line of JSON per event on its standard output (events.go), errors are on its
// standard error as for everyone. A child ends when its standard input does; so it ends, too, when the parent is killed.
package testnet
