package trainer

import (
	"testing"
	"time"

	"shoal/kernel/cpu"
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
		dev, err := cpu.New(cpu.Config{Threads: 1})
		if err != nil {
			t.Fatal(err)
		}
		tr, err := New(m, NewSamples(m.Sample(), 2, 3), dev)
		if err != nil {
			t.Fatal(err)
		}
		if s, err := tr.Turn(time.Millisecond); err != nil || !(s > 0) {
			t.Errorf("%v s, %v", s, err)
		}
		if err := tr.Close(); err != nil {
			t.Error(err)
		}
		if _, err := tr.take(1); err == nil {
			t.Error("a step after the end")
		}
	}
}

func TestSamples(t *testing.T) {
	s := NewSamples(model.Spec{Floats: 3, Tokens: 2, Labels: 1}, 5, 4).(*samples)
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
