// Package vit is a vision transformer (Dosovitskiy et al. 2021, arXiv 2010.11929) in the simple form of Beyer et al.
// 2022 (arXiv 2205.01580): pre-norm blocks, no class token, the mean over all tokens before a linear head. Unlike there
// the position embeddings are learned.
//
// It is a model.Model: unit 0 holds patch embedding, positions, final norm and head, each further unit one block. Its
// goldens come from PyTorch, see scripts/goldens.
//
// In shape comments B is the batch, T the tokens of an image, C the width (Dim), H the heads, P the numbers in a patch.
package vit
