package shoal

import (
	"bytes"
	"flag"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"shoal/internal/runfile"
)

var numerics = flag.Bool("numerics", false, "compare the formats of precision.reduce, for some minutes, and write the table to docs/numerics.md")

// textRun is a small language model that reads the project's own text for seven epochs.
func textRun(reduce string, seed uint64) *RunFile {
	r, err := runfile.Parse([]byte(`name: numerics
model: {type: gpt, vocab: 256, context: 64, dim: 64, depth: 2, heads: 4}
data: {source: text, path: examples/harbour.txt}
train: {steps: 120, batch: 16, microbatch: 2, lr: 3e-3, schedule: cosine, warmup: 20, weight_decay: 0.1, clip: 1.0}
`))
	if err != nil {
		panic(err) // constant text
	}
	r.Precision.Reduce, r.Train.Seed = reduce, seed
	return &r
}

// finals are the final losses of runs that differ in their seed.
type finals struct {
	train, held []float64 // mean of the last 10 steps; held-out text
	retries     int
}

func mean(x []float64) (sum float64) {
	for _, v := range x {
		sum += v / float64(len(x))
	}
	return sum
}

func spread(x []float64) float64 { return slices.Max(x) - slices.Min(x) }

// TestNumerics trains the same model with each way to sum gradients and three seeds: how gradients are summed changes the
// final losses by less than the seed does.
func TestNumerics(t *testing.T) {
	if !*numerics {
		t.Skip("takes minutes: run it with `make numerics`")
	}
	got := map[string]*finals{}
	formats := []string{"fixed32", "fp32", "fixed16", "bf16"}
	for _, f := range formats {
		got[f] = &finals{}
		for _, seed := range []uint64{1, 2, 3} {
			run := textRun(f, seed)
			r := together(t, peers(2, func(i int, c *Config) {
				if i == 0 {
					c.RunFile = run
				} else {
					c.Files = "text:" + run.Data.Path
				}
			})...)[0]
			got[f].train = append(got[f].train, mean(r.Loss[len(r.Loss)-10:]))
			got[f].held = append(got[f].held, float64(r.Eval.Loss))
			got[f].retries += r.Peers[0].Retries
			t.Logf("%s, seed %d: loss %.4f, held-out loss %.4f", f, seed, got[f].train[seed-1], got[f].held[seed-1])
		}
	}
	for _, f := range formats[1:] {
		for name, of := range map[string]func(*finals) []float64{
			"loss": func(x *finals) []float64 { return x.train }, "held-out loss": func(x *finals) []float64 { return x.held },
		} {
			want, limit := mean(of(got["fixed32"])), max(spread(of(got["fixed32"])), spread(of(got["fp32"])))
			if d := mean(of(got[f])) - want; math.Abs(d) > limit {
				t.Errorf("%s: mean %s is %+.4f from fixed32's, the seeds differ by %.4f", f, name, d, limit)
			}
		}
	}
	writeNumerics(t, formats, got)
}

// writeNumerics puts the table between its two marks in docs/numerics.md.
func writeNumerics(t *testing.T, formats []string, got map[string]*finals) {
	const file, begin, end = "docs/numerics.md", "<!-- table of make numerics -->\n", "<!-- end -->\n"
	var b strings.Builder
	b.WriteString("\n| `precision.reduce` | loss, seeds 1, 2, 3 | mean | held-out loss, seeds 1, 2, 3 | mean | spread of seeds | retries |\n")
	b.WriteString("| --- | --- | --- | --- | --- | --- | --- |\n")
	for _, f := range formats {
		x := got[f]
		fmt.Fprintf(&b, "| `%s` | %.4f, %.4f, %.4f | %.4f | %.4f, %.4f, %.4f | %.4f | %.4f | %d |\n", f, x.train[0], x.train[1], x.train[2],
			mean(x.train), x.held[0], x.held[1], x.held[2], mean(x.held), spread(x.held), x.retries)
	}
	b.WriteString("\n")
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := bytes.Cut(page, []byte(begin))
	_, after, ok2 := bytes.Cut(rest, []byte(end))
	if !ok || !ok2 {
		t.Fatalf("%s lacks the marks %q and %q", file, begin, end)
	}
	page = slices.Concat(before, []byte(begin+b.String()+end), after)
	if err := os.WriteFile(file, page, 0o644); err != nil {
		t.Fatal(err)
	}
}
