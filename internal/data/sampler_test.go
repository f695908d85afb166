package data

import (
	"fmt"
	"math"
	"slices"
	"testing"
)

// epochOf collects the batches of one epoch.
func epochOf(t *testing.T, seed uint64, n, batch, epoch int) []int {
	t.Helper()
	var order []int
	steps := StepsPerEpoch(n, batch)
	for s := range steps {
		e, indices := Batch(seed, n, batch, epoch*steps+s)
		want := min(batch, n)
		if rest := n % batch; s == steps-1 && rest != 0 {
			want = rest
		}
		if e != epoch || len(indices) != want {
			t.Fatalf("n %d, batch %d, step %d: epoch %d with %d samples, want epoch %d with %d",
				n, batch, epoch*steps+s, e, len(indices), epoch, want)
		}
		order = append(order, indices...)
	}
	return order
}

func TestEveryEpochHoldsEachSampleOnce(t *testing.T) {
	for _, c := range []struct{ n, batch int }{
		{1, 1}, {1, 64}, {2, 1}, {3, 2}, {5, 64}, {7, 7}, {64, 64}, {65, 64}, {100, 7}, {1000, 64}, {60000, 64}, {65537, 4096},
	} {
		t.Run(fmt.Sprintf("n %d batch %d", c.n, c.batch), func(t *testing.T) {
			var before []int
			for epoch := range 3 {
				order := epochOf(t, 1, c.n, c.batch, epoch)
				if c.n >= 64 && slices.Equal(order, before) {
					t.Errorf("epochs %d and %d have one order", epoch-1, epoch)
				}
				before = slices.Clone(order)
				slices.Sort(order)
				if !slices.Equal(order, upTo(c.n)) {
					t.Errorf("epoch %d does not hold each of %d samples once", epoch, c.n)
				}
			}
		})
	}
}

// The order is part of every run's hash.
func TestBatchGolden(t *testing.T) {
	for _, c := range []struct {
		seed           uint64
		n, batch, step int
		epoch          int
		want           []int
	}{
		{1, 10, 4, 0, 0, []int{1, 5, 7, 0}},
		{1, 10, 4, 2, 0, []int{3, 2}},
		{1, 10, 4, 3, 1, []int{4, 8, 7, 6}},
		{2, 10, 4, 0, 0, []int{5, 3, 6, 7}},
		{1, 60000, 5, 0, 0, []int{39178, 4615, 35527, 30537, 2671}},
		{1, 60000, 5, 12000, 1, []int{31991, 18531, 48910, 11896, 37929}},
		{1<<64 - 1, math.MaxInt32, 5, 1, 0, []int{1341073445, 1800088482, 2097768079, 134716731, 592811568}},
	} {
		epoch, got := Batch(c.seed, c.n, c.batch, c.step)
		if epoch != c.epoch || !slices.Equal(got, c.want) {
			t.Errorf("Batch(%d, %d, %d, %d) = %d, %v, want %d, %v", c.seed, c.n, c.batch, c.step, epoch, got, c.epoch, c.want)
		}
	}
}

func TestBatchOfAHugeDataSet(t *testing.T) {
	const n = math.MaxInt - 1
	seen := map[int]bool{}
	for step := range 10 {
		_, indices := Batch(9, n, 100, step)
		for _, i := range indices {
			if i < 0 || i >= n || seen[i] {
				t.Fatalf("step %d: sample %d is outside of [0, %d) or came before", step, i, n)
			}
			seen[i] = true
		}
	}
	if epoch, indices := Batch(9, n, 100, n/100); epoch != 0 || len(indices) != n%100 {
		t.Errorf("last step of the epoch: epoch %d with %d samples, want 0 with %d", epoch, len(indices), n%100)
	}
}

func TestBatchOfNothing(t *testing.T) {
	for _, c := range [][3]int{{0, 1, 0}, {-1, 1, 0}, {1, 0, 0}, {1, -1, 0}, {1, 1, -1}, {math.MinInt, math.MinInt, math.MinInt}} {
		if _, got := Batch(1, c[0], c[1], c[2]); len(got) != 0 {
			t.Errorf("Batch(1, %d, %d, %d) = %v, want none", c[0], c[1], c[2], got)
		}
	}
}

// chiSquare is the statistic of counts that should all be equal, in standard deviations from what it should be.
func chiSquare(counts []int) float64 {
	total := 0
	for _, c := range counts {
		total += c
	}
	mean, sum := float64(total)/float64(len(counts)), 0.0
	for _, c := range counts {
		sum += (float64(c) - mean) * (float64(c) - mean) / mean
	}
	freedom := float64(len(counts) - 1)
	return (sum - freedom) / math.Sqrt(2*freedom)
}

// Over many epochs each sample comes to each position equally often, and so does each sample after each other one.
func TestOrdersAreUniform(t *testing.T) {
	for _, n := range []int{2, 3, 5, 16, 17, 40} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			places, pairs := make([]int, n*n), make([]int, n*(n-1))
			for epoch := range 4000 {
				_, order := Batch(5, n, n, epoch)
				for i, s := range order {
					places[i*n+s]++
					next := order[(i+1)%n]
					pairs[s*(n-1)+(next-s+n)%n-1]++
				}
			}
			// Rows and columns of places have fixed sums, so its statistic is a little below the usual one.
			if z := chiSquare(places); math.Abs(z) > 4 {
				t.Errorf("samples and positions: %.1f deviations from uniform", z)
			}
			if z := chiSquare(pairs); n > 2 && math.Abs(z) > 4 {
				t.Errorf("neighbours: %.1f deviations from uniform", z)
			}
		})
	}
}

// All six orders of three samples are equally likely, over epochs and over seeds.
func TestOrdersOfThree(t *testing.T) {
	byEpoch, bySeed := make([]int, 27), make([]int, 27)
	for k := range 6000 {
		_, a := Batch(1, 3, 3, k)
		_, b := Batch(uint64(k), 3, 3, 0)
		byEpoch[a[0]*9+a[1]*3+a[2]]++
		bySeed[b[0]*9+b[1]*3+b[2]]++
	}
	for name, counts := range map[string][]int{"epochs": byEpoch, "seeds": bySeed} {
		counts = slices.DeleteFunc(counts, func(c int) bool { return c == 0 })
		if z := chiSquare(counts); len(counts) != 6 || z > 4 {
			t.Errorf("over %s: %d of 6 orders, %.1f deviations from uniform: %v", name, len(counts), z, counts)
		}
	}
}

func TestStepsPerEpoch(t *testing.T) {
	for _, c := range [][3]int{{10, 4, 3}, {10, 10, 1}, {10, 64, 1}, {0, 4, 0}, {10, 0, 0}, {math.MaxInt, math.MaxInt, 1}} {
		if got := StepsPerEpoch(c[0], c[1]); got != c[2] {
			t.Errorf("StepsPerEpoch(%d, %d) = %d, want %d", c[0], c[1], got, c[2])
		}
	}
}

func BenchmarkBatch(b *testing.B) {
	for i := 0; b.Loop(); i++ {
		Batch(1, 60000, 64, i)
	}
}
