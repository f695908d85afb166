// Package gpt is a causal language model of GPT-2's form (Radford et al. 2019): token and position embeddings, pre-norm
// blocks, a final norm, and a head that shares its matrix with the token embedding. Parameters have the names and
// shapes that Hugging Face's GPT-2 gives them, so a run's output opens there.
//
// It is a model.Model: unit 0 holds embeddings and final norm, each further unit one block. Its goldens come from
// PyTorch, see scripts/goldens.
//
// In shape comments B is the batch, T the tokens of a sample (Context), C the width (Dim), H the heads, V the vocabulary.
package gpt
