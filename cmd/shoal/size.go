package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// byteSize is a flag's value: a number of bytes, as in 512MiB, 4GiB, 1.5GB or 1000000.
type byteSize int64

// units are tried in this order: the longer suffix first.
var units = []struct {
	suffix string
	bytes  float64
}{
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40},
	{"kB", 1e3}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}, {"B", 1},
}

func (s *byteSize) Set(text string) error {
	number, factor := strings.TrimSpace(text), 1.0
	for _, u := range units {
		if strings.HasSuffix(number, u.suffix) {
			number, factor = strings.TrimSpace(strings.TrimSuffix(number, u.suffix)), u.bytes
			break
		}
	}
	n, err := strconv.ParseFloat(number, 64)
	if n *= factor; err != nil || strings.ContainsAny(number, "xXpP_") || !(n >= 1 && n < math.MaxInt64) {
		return fmt.Errorf("%q is no size, use one such as 512MiB, 4GiB or 2GB", text)
	}
	*s = byteSize(n)
	return nil
}

func (s *byteSize) String() string {
	n := int64(*s)
	for i := 3; i >= 0; i-- {
		if unit := int64(units[i].bytes); n != 0 && n%unit == 0 {
			return strconv.FormatInt(n/unit, 10) + units[i].suffix
		}
	}
	return strconv.FormatInt(n, 10)
}

func (s *byteSize) Type() string { return "size" }
