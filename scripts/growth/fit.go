package main

import (
	"errors"
	"fmt"
	"math"

	"gonum.org/v1/gonum/stat"
)

// growth is a power law: y grows as x to the exponent. deviation is the exponent's standard error.
type growth struct{ exponent, deviation float64 }

func (g growth) String() string { return fmt.Sprintf("%.2f ± %.2f", g.exponent, g.deviation) }

// fit puts a line of least squares through the logarithms of positive numbers, of which it needs three or more.
func fit(x, y []float64) growth {
	if len(x) < 3 || len(x) != len(y) {
		return growth{math.NaN(), math.NaN()}
	}
	lx, ly := logs(x), logs(y)
	a, b := stat.LinearRegression(lx, ly, nil, false)
	n, left := float64(len(x)), 0.0
	for i := range lx {
		left += math.Pow(ly[i]-a-b*lx[i], 2)
	}
	return growth{b, math.Sqrt(left / (n - 2) / ((n - 1) * stat.Variance(lx, nil)))}
}

func logs(x []float64) []float64 {
	l := make([]float64, len(x))
	for i, v := range x {
		l[i] = math.Log(v)
	}
	return l
}

// of lists one figure of all points.
func of(points []point, f func(*point) float64) (list []float64) {
	for i := range points {
		list = append(list, f(&points[i]))
	}
	return list
}

const (
	mostControl = 0.01 // of the bytes at 16 peers
	nearFormula = 0.05
)

// check says which promises the figures break.
func check(byPeers, bySize []point) (err error) {
	for _, list := range [][]point{byPeers, bySize} {
		for _, p := range list {
			if p.peers == 1 {
				continue
			}
			if off := (p.received-p.control)/p.formula - 1; math.Abs(off) > nearFormula {
				err = errors.Join(err, fmt.Errorf("%s of %.0f parameters receive %+.1f%% of what the formula says", peers(p.peers), p.parameters, 100*off))
			}
		}
	}
	last := byPeers[len(byPeers)-1]
	if share := last.control / last.received; share > mostControl {
		err = errors.Join(err, fmt.Errorf("the log's part of the bytes is %.2f%% at %s, want at most 1%%", 100*share, peers(last.peers)))
	}
	return err
}
