// Package model is the contract of a trainable network: named parameters grouped into units, and stages with Forward
// and Backward on a kernel.Device. A model does not know that it is sharded: whoever runs it hands each stage whole
// tensors for the moment of the call.
//
// model/vit is a vision transformer, model/gpt a language model; model/modeltest checks any Model's gradients against
// finite differences.
package model
