package gemm

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"shoal/kernel"
)

// The products of the default model (a sequence of 16, 8 samples, width 64), its attention blocks, and larger ones.
var benchShapes = []struct {
	trans   kernel.Trans
	m, n, k int
	ld      int // row stride of every matrix, 0 for dense
}{
	{kernel.NN, 128, 192, 64, 0}, {kernel.NN, 128, 256, 64, 0}, {kernel.NN, 128, 64, 256, 0},
	{kernel.NT, 128, 64, 192, 0}, {kernel.NT, 128, 64, 256, 0}, {kernel.NT, 128, 256, 64, 0},
	{kernel.TN, 64, 192, 128, 0}, {kernel.TN, 64, 256, 128, 0}, {kernel.TN, 256, 64, 128, 0},
	{kernel.NN, 16, 16, 16, 192}, {kernel.NT, 16, 16, 16, 192}, {kernel.TN, 16, 16, 16, 192},
	{kernel.NN, 128, 64, 64, 0}, {kernel.NN, 8, 10, 64, 0},
	{kernel.NN, 512, 512, 512, 0}, {kernel.NT, 512, 512, 512, 0}, {kernel.TN, 512, 512, 512, 0},
	{kernel.NN, 512, 384, 1536, 0}, {kernel.NN, 1024, 1024, 1024, 0},
}

func BenchmarkGemm(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, s := range benchShapes {
		for _, k := range kernels() {
			b.Run(fmt.Sprintf("%v-%dx%dx%d/%s", s.trans, s.m, s.n, s.k, k.Name()), func(b *testing.B) {
				lda, ldb, ldc := s.k, s.n, s.n
				if s.trans == kernel.NT {
					ldb = s.k
				}
				if s.trans == kernel.TN {
					lda = s.m
				}
				if s.ld > 0 {
					lda, ldb, ldc = s.ld, s.ld, s.ld
				}
				size := max(s.m, s.n, s.k) * max(lda, ldb, ldc)
				x, y, z := fill(r, fillers[0], size), fill(r, fillers[0], size), make([]float32, size)
				var scratch Scratch
				b.ReportAllocs()
				b.ResetTimer()
				for b.Loop() {
					k.Gemm(s.trans, z, ldc, x, lda, y, ldb, s.m, s.n, s.k, false, &scratch)
				}
				flops := 2 * float64(s.m) * float64(s.n) * float64(s.k) * float64(b.N)
				b.ReportMetric(flops/b.Elapsed().Seconds()/1e9, "GFLOP/s")
			})
		}
	}
}
