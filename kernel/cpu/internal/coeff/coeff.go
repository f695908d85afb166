// Package coeff has the numbers of kernel/cpu's loops in plain Go and of the programs that write its assembly.
package coeff

// Of the exponential and of GELU, as ref.Exp and ref.GELU explain them.
const (
	ExpMax   = 89
	ExpMin   = -104
	RoundBit = 12582912.0
	Log2e    = 1.44269504
	Ln2Hi    = 0.693359375
	Ln2Lo    = -2.12194440e-4
	Exp2     = 0x1.fffffcp-2
	Exp3     = 0x1.55549p-3
	Exp4     = 0x1.5558fcp-5
	Exp5     = 0x1.123b9ap-7
	Exp6     = 0x1.6a2124p-10

	GeluA = 1.5957691216057308
	GeluB = 0.044715 * GeluA
	GeluC = 3 * GeluB
	GeluX = 10
)
