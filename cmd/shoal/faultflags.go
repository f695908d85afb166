package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"shoal/testnet"
)

// faultFlags are testnet's: what is done to its peers.
type faultFlags struct {
	list []testnet.Fault
	slow []string
}

func (t *faultFlags) add(cmd *cobra.Command) {
	f := cmd.Flags()
	for kind, help := range map[string]string{
		testnet.Kill:  "kill a peer at a `point`, WHO@step:N[:PHASE], as in 2@step:40:backward; WHO is a peer's number or leader, owner, backup, joiner, donor",
		testnet.Stop:  "stop a peer at a `point` for a while, WHO@step:N[:PHASE][:SECONDS] (default: 30 seconds; 0: for ever)",
		testnet.Leave: "have a peer leave politely at a `point`, WHO@step:N",
		testnet.Join:  "start further peers once a step is done, as `COUNT@step:N`",
	} {
		f.Var(&faultValue{kind, &t.list}, kind, help)
	}
	f.StringArrayVar(&t.slow, "slow", nil, "make a `peer` slower, PEER=FACTOR, as in 2=10")
}

// slows are the factors by peer.
func (t *faultFlags) slows() (map[int]float64, error) {
	by := map[int]float64{}
	for _, text := range t.slow {
		peer, factor, _ := strings.Cut(text, "=")
		i, err := strconv.Atoi(peer)
		x, err2 := strconv.ParseFloat(factor, 64)
		if err != nil || err2 != nil {
			return nil, wrongInput{fmt.Errorf("--slow: %.100q is not allowed here, write it as in 2=10", text)}
		}
		by[i] = x
	}
	return by, nil
}

// faultValue collects the faults of one kind, in the order in which they were given.
type faultValue struct {
	kind string
	list *[]testnet.Fault
}

func (v *faultValue) Set(text string) error {
	f, err := testnet.ParseFault(v.kind, text)
	if err == nil {
		*v.list = append(*v.list, f)
	}
	return err
}

func (v *faultValue) Type() string   { return "point" }
func (v *faultValue) String() string { return "" }
