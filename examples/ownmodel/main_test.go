package main

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"shoal"
	"shoal/model"
	"shoal/model/modeltest"
)

func TestGradients(t *testing.T) {
	modeltest.Check(t, mlp{}, modeltest.Config{Classes: arms})
}

func TestDataIsAFunctionOfTheIndex(t *testing.T) {
	read := func(s spirals, indices ...int) (b model.Batch) {
		if err := s.Read(indices, &b); err != nil {
			t.Fatal(err)
		}
		return b
	}
	whole, part := read(spirals{n: 6000}, 0, 1, 2, 3), read(spirals{n: 6000}, 3)
	if part.Floats[0] != whole.Floats[6] || part.Labels[0] != whole.Labels[3] {
		t.Error("sample 3 depends on what else is read")
	}
	if held := read(spirals{first: 6000, n: 1000}, 0); held.Floats[0] == whole.Floats[0] {
		t.Error("the held-out samples are those of the training")
	}
}

// One peer and three come to the same parameters, which have learnt the spirals.
func TestOnePeerAndThree(t *testing.T) {
	one, three := train(t, 1), train(t, 3)
	if one.StateHash != three.StateHash {
		t.Errorf("state %s with one peer, %s with three", one.StateHash, three.StateHash)
	}
	if one.Eval == nil || one.Eval.Accuracy < 0.95 {
		t.Errorf("evaluation %+v: want an accuracy of at least 0.95", one.Eval)
	}
}

// train runs n peers in this process, over real connections, and returns the first one's report.
func train(t *testing.T, n int) *shoal.Report {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	reports, errs := make([]*shoal.Report, n), make([]error, n)
	link := make(chan string, n)
	var peers sync.WaitGroup
	for i := range n {
		peers.Go(func() {
			cfg, err := config()
			cfg.Listen, cfg.Cores, cfg.Memory = []string{"/ip4/127.0.0.1/tcp/0"}, 1, 1<<28
			if i == 0 {
				cfg.Peers = n
				cfg.OnLink = func(l string) {
					for range n - 1 {
						link <- l
					}
				}
			} else {
				select {
				case cfg.Link = <-link:
				case <-ctx.Done():
					return
				}
			}
			if err == nil {
				reports[i], err = shoal.Run(ctx, cfg)
			}
			if errs[i] = err; err != nil {
				cancel()
			}
		})
	}
	peers.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	return reports[0]
}
