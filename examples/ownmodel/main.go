// Ownmodel trains a small network of its own by Shoal: a program alone, or several with one link.
//
//	go run ./examples/ownmodel -peers 3       prints a LINK and waits for two more
//	go run ./examples/ownmodel -link LINK     joins
package main

import (
	"context"
	_ "embed"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"

	"shoal"
)

//go:embed run.yaml
var runFile []byte

// config is what every peer of the run has in common.
func config() (shoal.Config, error) {
	run, err := shoal.ParseRunFile(runFile)
	return shoal.Config{RunFile: &run, Model: mlp{}, Data: spirals{n: 6000}, Eval: spirals{first: 6000, n: 1000}}, err
}

func main() {
	cfg, err := config()
	if err != nil {
		log.Fatal(err)
	}
	flag.IntVar(&cfg.Peers, "peers", 1, "how many peers a new run waits for")
	flag.StringVar(&cfg.Link, "link", "", "the run to join")
	flag.Parse()
	cfg.OnLink = func(link string) { fmt.Println(link) }
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	report, err := shoal.Run(ctx, cfg)
	if err != nil {
		log.Fatal(err) // which ends the process, so stop need not run
	}
	fmt.Printf("accuracy %.1f%%, state %s\n", 100*report.Eval.Accuracy, report.StateHash)
}
