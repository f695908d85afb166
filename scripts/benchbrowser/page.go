package main

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"shoal/internal/median"
	"shoal/scripts/benchbrowser/model"
)

// Contestants, as web/bench.mjs lists them.
const (
	nativeCore = iota
	oneWorker
	twoWorkers
	tensorflow
	onnxruntime
)

// limits are what kernel/wasm must reach.
var limits = []struct {
	what    string
	of, to  int // contestants
	trans   []int
	atLeast float64
}{
	{"one worker / native", oneWorker, nativeCore, []int{0, 1, 2}, 0.45},
	{"one worker / TensorFlow.js", oneWorker, tensorflow, []int{0}, 1.2},
	{"one worker / TensorFlow.js", oneWorker, tensorflow, []int{1, 2}, 10},
	{"one worker / ONNX Runtime Web", oneWorker, onnxruntime, []int{0, 1, 2}, 1.4},
	{"two workers / one worker", twoWorkers, oneWorker, []int{0, 1, 2}, 1.7},
}

// stepAtLeast is how fast a training step in the browser must be, as a part of the native speed.
const stepAtLeast = 0.40

var trans = [...]string{"NN", "NT", "TN"}

// write is the page, and an error that names the limits that were missed.
func write(o *outcome, rounds, slice int) ([]byte, error) {
	var b bytes.Buffer
	fmt.Fprintf(&b, `# How fast a browser computes

By `+"`make bench-browser`"+`: products of matrices, %d x %d times %d x %d, as a transformer has them in its forward pass (NN) and
its backward pass (NT, TN), in float32, in one page of a headless %s on %s/%s with %d cores. Everybody computes in turn, %d times
over, for about %d milliseconds. What else the machine does can only slow them down, so the best turns are compared.

`, rows, inner, inner, cols, browser(o.Browser), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), rounds, slice)
	b.WriteString("GFLOP/s: best (median) |")
	for _, t := range trans {
		fmt.Fprintf(&b, " %s |", t)
	}
	b.WriteString("\n--- | ---: | ---: | ---:\n")
	for _, c := range o.Contestants {
		fmt.Fprintf(&b, "%s |", strings.TrimSpace(c.Name+" "+c.Version))
		for t := range trans {
			fmt.Fprintf(&b, " %.1f (%.1f) |", slices.Max(c.GFLOPS[t]), median.Of(c.GFLOPS[t]))
		}
		b.WriteString("\n")
	}
	fmt.Fprintf(&b, `
The kernels of kernel/wasm here: %s. One thread each, but for Shoal's two workers. ONNX Runtime's figures include that its operands
are copied in and its results out, 7 MB each time; the others' are in place. TensorFlow.js and ONNX Runtime don't promise an order
of summation; Shoal's products have the same bits as kernel/ref.

Ratio of the best turns | NN | NT | TN | at least
--- | ---: | ---: | ---: | ---:
`, o.Contestants[oneWorker].Kind)
	var missed []error
	for _, l := range limits {
		fmt.Fprintf(&b, "%s |", l.what)
		for t := range trans {
			if !slices.Contains(l.trans, t) {
				b.WriteString(" |")
				continue
			}
			r := slices.Max(o.Contestants[l.of].GFLOPS[t]) / slices.Max(o.Contestants[l.to].GFLOPS[t])
			fmt.Fprintf(&b, " %.2f |", r)
			if r < l.atLeast {
				missed = append(missed, fmt.Errorf("%s, %s: %.2f, want at least %v", l.what, trans[t], r, l.atLeast))
			}
		}
		fmt.Fprintf(&b, " %v\n", l.atLeast)
	}
	native, tab := o.Steps[0], o.Steps[1]
	r := slices.Min(native) / slices.Min(tab)
	fmt.Fprintf(&b, `
A whole training step, forward, backward and AdamW in float32: %s as one microbatch, in a run with one member, that is
package fsdp in both cases. In the browser it runs as Go compiled to WebAssembly in a Worker, with one compute worker.

milliseconds: best (median) | a step
--- | ---:
native, AVX2, one core | %.0f (%.0f)
Shoal, 1 worker | %.0f (%.0f)

Ratio of the best turns | | at least
--- | ---: | ---:
one worker / native | %.2f | %.2f
`, model.Name, slices.Min(native), median.Of(native), slices.Min(tab), median.Of(tab), r, stepAtLeast)
	if r < stepAtLeast {
		missed = append(missed, fmt.Errorf("training step, one worker / native: %.2f, want at least %.2f", r, stepAtLeast))
	}
	return b.Bytes(), errors.Join(missed...)
}

// browser is the name in a user agent.
func browser(agent string) string {
	if s := regexp.MustCompile(`(Headless)?Chrome/([0-9]+)`).FindStringSubmatch(agent); s != nil {
		return "Chromium " + s[2]
	}
	return agent
}
