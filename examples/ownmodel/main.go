// Ownmodel (`go run ./examples/ownmodel`) trains a network of its own on one peer and on three, to the same parameters.
package main

import (
	"context"
	_ "embed"
	"fmt"
	"log"
	"sync"

	"shoal"
)

//go:embed run.yaml
var runFile []byte

func main() {
	one, three := train(1), train(3)
	fmt.Printf("one peer     %s\nthree peers  %s\n", one.StateHash, three.StateHash)
	fmt.Printf("equal: %v, accuracy: %.1f%%\n", one.StateHash == three.StateHash, 100*one.Eval.Accuracy)
}

// train runs peers in this process, connected as on several machines, and returns the first one's report.
func train(peers int) *shoal.Report {
	run := must(shoal.ParseRunFile(runFile))
	cfg := shoal.Config{RunFile: &run, Peers: peers, Model: mlp{}, Data: spirals{n: 6000}, Eval: spirals{first: 6000, n: 1000},
		Listen: []string{"127.0.0.1:0"}, Memory: 1 << 28, Cores: 1}
	var others sync.WaitGroup
	defer others.Wait()
	cfg.OnLink = func(link string) {
		join := cfg
		join.RunFile, join.Link = nil, link
		for range peers - 1 {
			others.Go(func() { must(shoal.Run(context.Background(), join)) })
		}
	}
	return must(shoal.Run(context.Background(), cfg))
}

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}
