// Package place says where the parameters of a run are: a model's flat vectors are cut once into fixed ranges, and a
// Map names for each range its owner and its backups, which together are its holders.
//
// Everybody who takes part works out the same maps from the same log, so all of this is pure integer arithmetic on its
// arguments: no randomness, no clock, no map iteration, no floating point.
//
// # From one map to the next
//
//	Start     the first map of a run, when nobody holds anything yet and everything can be made from the seed
//	Survive   a map after deaths: holders take over what dead owners had; no data moves
//	Want      where things should be with the peers that there are now
//	Missing   the transfers (fills) that lead from a map to the wanted one
//	Settle    the wanted map, as far as the transfers have got
//
// So a death is Survive, then Want, then fills while training goes on, then Settle. A newcomer is a rank without
// ranges, which Want gives some. A peer that leaves has Keep false: Want takes everything from it.
//
// # Files
//
//	place.go     Range, Peer, Map, and what can be said of one map
//	change.go    Survive, Missing, Settle
//	want.go      Start and Want: owners
//	backups.go   Want: backups
//	even.go      how loads are evened out with few moves
package place
