package a64

import "fmt"

// Code is an instruction on vectors of four float32 or int32 that Go's assembler doesn't know: d = n op m.
type Code struct {
	name   string
	bits   uint32
	second string // the form of m, "" if there is none
}

// The codes, as the Arm Architecture Reference Manual has them.
var (
	FADD    = Code{"FADD", 0x4e20d400, "S4"}
	FSUB    = Code{"FSUB", 0x4ea0d400, "S4"}
	FMUL    = Code{"FMUL", 0x6e20dc00, "S4"}
	FDIV    = Code{"FDIV", 0x6e20fc00, "S4"}
	FMIN    = Code{"FMIN", 0x4ea0f400, "S4"} // NaN if n or m is
	FMAX    = Code{"FMAX", 0x4e20f400, "S4"} // NaN if n or m is
	FNEG    = Code{"FNEG", 0x6ea0f800, ""}
	FSQRT   = Code{"FSQRT", 0x6ea1f800, ""}
	SCVTF   = Code{"SCVTF", 0x4e21d800, ""}  // to float32
	FCVTNS  = Code{"FCVTNS", 0x4e21a800, ""} // to int32, nearest even; NaN gives 0
	ADD     = Code{"ADD", 0x4ea08400, "S4"}
	SUB     = Code{"SUB", 0x6ea08400, "S4"}
	SSHR1   = Code{"SSHR $1,", 0x4f3f0400, ""} // arithmetic shift to the right
	SHL23   = Code{"SHL $23,", 0x4f375400, ""} // shift to the left
	FMLALow = Code{"FMLA", 0x4f801000, "S[0]"} // d += n * lane 0 of m, rounded once
)

// Vector writes Vd = Vn op Vm; m is left out where the code has no second source.
func (f *File) Vector(c Code, d, n int, m ...int) {
	word, sources := c.bits|uint32(n)<<5|uint32(d), fmt.Sprintf("V%d.S4", n)
	if c.second != "" {
		word |= uint32(m[0]) << 16
		sources = fmt.Sprintf("V%d.%s, %s", m[0], c.second, sources)
	}
	f.Op("WORD $%#08x // %s %s, V%d.S4", word, c.name, sources, d)
}
