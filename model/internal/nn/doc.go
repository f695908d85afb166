// Package nn is what the transformers of package model share: a linear layer, the pre-norm block, and how parameters
// are listed. It fixes the order in which ops run, and so the bits of every model that uses it.
//
// In shape comments B is the batch, T the tokens of a sample, C the width (Dim), H the heads.
package nn
