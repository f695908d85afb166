package main

import (
	"strings"
	"testing"
)

// TestWrite: the best turns are compared, and a limit that is missed is named.
func TestWrite(t *testing.T) {
	made := func(native, one, two, tf, tfBackward, ort float64) *outcome {
		o := &outcome{Browser: "Mozilla/5.0 HeadlessChrome/156.0.0.0", Contestants: make([]contestant, onnxruntime+1)}
		o.Steps = [2][]float64{{90, 60, 70}, {120, 300, 130}}
		for i, g := range []float64{native, one, two, tf, ort} {
			for trans := range o.Contestants[i].GFLOPS {
				if i == tensorflow && trans > 0 {
					g = tfBackward
				}
				o.Contestants[i].GFLOPS[trans] = []float64{g / 8, g, g / 2}
			}
		}
		return o
	}
	text, err := write(made(100, 50, 95, 30, 2, 25), 3, 80)
	if err != nil {
		t.Error(err)
	}
	for _, want := range []string{"Chromium 156", " 100.0 (50.0) |", "| 0.50 | 0.50 | 0.50 | 0.45\n", "/ TensorFlow.js | 1.67 | | | 1.2\n",
		"/ TensorFlow.js | | 25.00 | 25.00 | 10\n", "/ ONNX Runtime Web | 2.00 | 2.00 | 2.00 | 1.4\n", "two workers / one worker | 1.90 | 1.90 | 1.90 | 1.7\n",
		"one core | 60 (70)\n", "1 worker | 120 (130)\n", "one worker / native | 0.50 | 0.40\n"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the page lacks %q:\n%s", want, text)
		}
	}
	_, err = write(made(100, 44, 95, 30, 2, 25), 3, 80)
	if err == nil || !strings.Contains(err.Error(), "native, TN: 0.44, want at least 0.45") || strings.Contains(err.Error(), "ONNX") {
		t.Errorf("at 44%%: %v", err)
	}
}

// TestWriteSlowStep: so is a training step that takes too long.
func TestWriteSlowStep(t *testing.T) {
	o := &outcome{Contestants: make([]contestant, onnxruntime+1), Steps: [2][]float64{{40}, {103}}}
	for i := range o.Contestants {
		for trans := range o.Contestants[i].GFLOPS {
			o.Contestants[i].GFLOPS[trans] = []float64{1}
		}
	}
	if _, err := write(o, 1, 1); err == nil || !strings.Contains(err.Error(), "training step, one worker / native: 0.39, want at least 0.40") {
		t.Errorf("at 39%%: %v", err)
	}
}

// TestCheck: a page that has measured too little, or failed, is no outcome.
func TestCheck(t *testing.T) {
	whole := func() *outcome {
		o := &outcome{Contestants: make([]contestant, onnxruntime+1)}
		for i := range o.Contestants {
			for trans := range o.Contestants[i].GFLOPS {
				o.Contestants[i].GFLOPS[trans] = []float64{1, 2}
			}
		}
		o.Steps = [2][]float64{{1, 2}, {1, 2}}
		return o
	}
	if _, err := whole().check(2); err != nil {
		t.Error(err)
	}
	failed, few, short, steps := whole(), whole(), whole(), whole()
	failed.Fail = "a reason"
	few.Contestants = few.Contestants[1:]
	short.Contestants[twoWorkers].GFLOPS[2] = nil
	steps.Steps[1] = nil
	for _, o := range []*outcome{failed, few, short, steps} {
		if _, err := o.check(2); err == nil {
			t.Errorf("%+v: no error", o)
		}
	}
}
