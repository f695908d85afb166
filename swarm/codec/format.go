package codec

import (
	"fmt"
	"strings"
)

// Format is how the elements of a tensor are written.
type Format uint8

const (
	FP32    Format = iota + 1 // IEEE 754 binary32
	BF16                      // the upper half of a binary32
	Fixed32                   // int32, in units of the tensor's power-of-two grid
)

var formatNames = map[Format]string{FP32: "fp32", BF16: "bf16", Fixed32: "fixed32"}

// Width is the size of one element in bytes, or 0 for a Format that does not exist.
func (f Format) Width() int {
	switch f {
	case FP32, Fixed32:
		return 4
	case BF16:
		return 2
	}
	return 0
}

func (f Format) String() string {
	if name, ok := formatNames[f]; ok {
		return name
	}
	return fmt.Sprintf("Format(%d)", uint8(f))
}

// ParseFormat reads a format's name: fp32, bf16 or fixed32.
func ParseFormat(name string) (Format, error) {
	for f, s := range formatNames {
		if s == name {
			return f, nil
		}
	}
	return 0, fmt.Errorf("unknown number format %q: use fp32, bf16 or fixed32", name)
}

// Packing says when tensor bytes are packed.
type Packing uint8

const (
	Auto Packing = iota // by measured speeds of link and packing (see Chooser)
	On                  // always, unless a chunk would grow
	Off                 // never
)

var packingNames = []string{Auto: "auto", On: "on", Off: "off"}

func (p Packing) String() string {
	if int(p) < len(packingNames) {
		return packingNames[p]
	}
	return fmt.Sprintf("Packing(%d)", uint8(p))
}

// ParsePacking reads the setting wire.packing: auto, on or off.
func ParsePacking(name string) (Packing, error) {
	for p, s := range packingNames {
		if s == name {
			return Packing(p), nil
		}
	}
	return 0, fmt.Errorf("unknown packing %q: use %s", name, strings.Join(packingNames, ", "))
}
