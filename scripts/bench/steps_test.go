package main

import (
	"testing"
	"time"

	"shoal/model"
	"shoal/model/gpt"
	"shoal/model/vit"
)

// TestTrainer: a run takes as many steps as it is told to, and ends when it is closed.
func TestTrainer(t *testing.T) {
	image, err := vit.New(vit.Config{Image: 6, Patch: 3, Channels: 1, Dim: 4, Depth: 1, Heads: 2, Classes: 3})
	if err != nil {
		t.Fatal(err)
	}
	text, err := gpt.New(gpt.Config{Vocab: 3, Context: 4, Dim: 4, Depth: 1, Heads: 2})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range []model.Model{image, text} {
		tr, err := newTrainer(m, newSamples(m.Sample(), 2, 3), 1)
		if err != nil {
			t.Fatal(err)
		}
		products := tr.device.products
		if s, err := tr.turn(time.Millisecond); err != nil || !(s > 0) {
			t.Errorf("%v s, %v", s, err)
		}
		if d := tr.device; d.products <= products || d.attention <= 0 {
			t.Errorf("%v in products, before the turn %v; %v in attention", d.products, products, d.attention)
		}
		if err := tr.close(); err != nil {
			t.Error(err)
		}
		if _, err := tr.take(1); err == nil {
			t.Error("a step after the end")
		}
	}
}

// TestModels: what is compared are models that there are.
func TestModels(t *testing.T) {
	for _, s := range steps(1) {
		m, classes, err := s.model()
		if err != nil || classes < 2 || model.Validate(m) != nil {
			t.Errorf("%s %s: %v", s.name, s.shape, err)
		}
	}
}

func TestSamples(t *testing.T) {
	s := newSamples(model.Spec{Floats: 3, Tokens: 2, Labels: 1}, 5, 4)
	var b model.Batch
	if err := s.Read([]int{4, 1}, &b); err != nil {
		t.Fatal(err)
	}
	if b.N != 2 || len(b.Floats) != 6 || len(b.Tokens) != 4 || len(b.Labels) != 2 {
		t.Fatalf("%+v", b)
	}
	if b.Floats[0] != s.Floats[12] || b.Tokens[3] != s.Tokens[3] || b.Labels[0] != s.Labels[4] {
		t.Errorf("%+v of %+v", b, s)
	}
	for _, l := range s.Labels {
		if l < 0 || l > 3 {
			t.Errorf("label %d", l)
		}
	}
}
