package main

import (
	"bytes"
	"os"
	"testing"

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
	one, three := train(1), train(3)
	if one.StateHash != three.StateHash {
		t.Errorf("state %s with one peer, %s with three", one.StateHash, three.StateHash)
	}
	if one.Eval == nil || one.Eval.Accuracy < 0.95 {
		t.Errorf("evaluation %+v: want an accuracy of at least 0.95", one.Eval)
	}
}

// The example stays short enough to be read.
func TestLength(t *testing.T) {
	lines := 0
	for _, name := range []string{"main.go", "model.go"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		lines += bytes.Count(text, []byte("\n"))
	}
	if lines > 150 {
		t.Errorf("%d lines of Go", lines)
	}
}
