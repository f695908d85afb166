package nn

import (
	"math"

	"shoal/model"
)

// Matrix is a weight that decays, drawn with standard deviation std.
func Matrix(name string, rows, cols int, std float32) model.Param {
	return model.Param{Name: name, Shape: []int{rows, cols}, Init: model.Init{Kind: model.Normal, A: std}, Decay: true}
}

// Xavier is the standard deviation that keeps values and gradients of a width, by variance 2/(in+out) (Glorot and
// Bengio 2010). IEEE square root and division give the same on every machine.
func Xavier(in, out int) float32 { return float32(math.Sqrt(2 / float64(in+out))) }

// Bias is a vector of zeros that does not decay.
func Bias(name string, n int) model.Param {
	return model.Param{Name: name, Shape: []int{n}, Init: model.Init{Kind: model.Zeros}}
}

// Gain is a norm's weight: a vector of ones that does not decay.
func Gain(name string, n int) model.Param {
	return model.Param{Name: name, Shape: []int{n}, Init: model.Init{Kind: model.Ones}}
}

// Positions are learned embeddings of n places in a sample; they don't decay.
func Positions(name string, n, dim int, std float32) model.Param {
	return model.Param{Name: name, Shape: []int{n, dim}, Init: model.Init{Kind: model.Normal, A: std}}
}

// Names lists the parameters of a unit, as a Stage wants them.
func Names(u model.Unit) []string {
	s := make([]string, len(u.Params))
	for i, p := range u.Params {
		s[i] = p.Name
	}
	return s
}
