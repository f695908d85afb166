package codec

import (
	"fmt"
	"strings"
)

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
