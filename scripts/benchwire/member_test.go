package main

import (
	"context"
	"encoding/json"
	"io"
	"sync"
	"testing"

	"shoal/swarm"
)

// Members in one process sum right, twice, and end with their input.
func TestMembers(t *testing.T) {
	const n, elements = 3, 1001
	var all sync.WaitGroup
	tell, hear := make([]*json.Encoder, n), make([]*json.Decoder, n)
	var inputs []io.Closer
	for r := range n {
		in, toIn := io.Pipe()
		fromOut, out := io.Pipe()
		inputs, tell[r], hear[r] = append(inputs, toIn), json.NewEncoder(toIn), json.NewDecoder(fromOut)
		all.Go(func() {
			err := serveMember(context.Background(), in, out, r, elements)
			if err != nil {
				t.Error(err)
			}
			out.CloseWithError(err)
			in.CloseWithError(err)
		})
	}
	members := make([]swarm.Contact, n)
	for r := range n {
		if err := hear[r].Decode(&members[r]); err != nil {
			t.Fatal(err)
		}
	}
	turn := func(what any) {
		t.Helper()
		for r := range n {
			if err := tell[r].Encode(what); err != nil {
				t.Fatal(err)
			}
		}
		for r := range n {
			var done struct{}
			if err := hear[r].Decode(&done); err != nil {
				t.Fatal(err)
			}
		}
	}
	turn(members)
	turn(memberRound{Check: true})
	turn(memberRound{})
	turn(memberRound{Check: true})
	for _, in := range inputs {
		in.Close()
	}
	all.Wait()
}
