package main

import (
	"testing"
	"time"

	"shoal/kernel/cpu"
	"shoal/model"
	"shoal/model/vit"
	"shoal/scripts/internal/trainer"
)

// TestClocked: the time that products and attention take is part of a turn's.
func TestClocked(t *testing.T) {
	m, err := vit.New(vit.Config{Image: 6, Patch: 3, Channels: 1, Dim: 4, Depth: 1, Heads: 2, Classes: 3})
	if err != nil {
		t.Fatal(err)
	}
	dev, err := cpu.New(cpu.Config{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	d := &clocked{Device: dev}
	tr, err := trainer.New(m, trainer.NewSamples(m.Sample(), 2, 3), d)
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	products := d.products
	if _, err := tr.Turn(time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if d.products <= products || d.attention <= 0 {
		t.Errorf("%v in products, before the turn %v; %v in attention", d.products, products, d.attention)
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
