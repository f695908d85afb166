// Command gen writes the assembly of kernel/cpu for AVX-512 and AVX2: operation by operation what loops_generic.go does,
// 16 elements at a time. kernel/cpu/generate.sh runs it.
package main

import . "github.com/mmcloughlin/avo/build"

func main() {
	ConstraintExpr("!noasm")
	for _, s := range []*set{{name: "512", zmm: true}, {name: "256"}} {
		s.add()
		s.scale()
		s.relu()
		s.reluBackward()
		s.sumColumns()
		s.gelu()
		s.geluBackward()
		s.softmax()
		s.softmaxBackward()
		s.divideRows()
		s.dotRows()
		s.layerNorm()
		s.layerNormBackward(false)
		if s.zmm { // AVX2 has not enough registers
			s.layerNormBackward(true)
		}
		s.normColumns()
		s.maxAbs()
		s.quantize()
		s.addI32()
		s.sumSquares()
		s.adamW()
		s.toBF16()
		s.fromBF16()
	}
	table.emit()
	masks()
	Generate()
}
