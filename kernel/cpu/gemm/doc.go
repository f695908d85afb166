// Package gemm multiplies float32 matrices on one core, bit for bit as kernel.Ops.MatMul says: each element of C is one
// chain of fused multiply-adds over k ascending, from 0 or from the old value.
//
// Every code path (AVX-512, AVX2, NEON, plain Go) gives the same bits, because tiles over m and n and blocks of k only
// change which chain is continued when, never a chain's own order. A block of k starts from the value that the block
// before stored.
//
//	k, err := gemm.Select("") // the best path of this CPU
//	var s gemm.Scratch        // one per goroutine
//	k.Gemm(kernel.NN, c, ldc, a, lda, b, ldb, m, n, kk, false, &s)
//
// The package starts no goroutines; kernel/cpu cuts a product into pieces, one per core. The build tag noasm leaves
// only the plain Go path.
//
// NEON is tested in an emulator; its speed has not been measured.
//
// The assembly is written by gen and gen/neon: generate.sh runs them, generate.sh --check says whether the committed
// files are current.
package gemm

//go:generate ./generate.sh
