package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// byteSize is a flag's value: a number of bytes, as in 512MiB, 4GiB, 4G, 1.5GB or 1000000. Upper and lower case are alike.
type byteSize int64

// units are tried in this order: the longer suffix first. A letter alone is a power of 1024, as the memory of machines is
// told.
var units = []struct {
	suffix string
	bytes  float64
}{
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40},
	{"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12},
	{"K", 1 << 10}, {"M", 1 << 20}, {"G", 1 << 30}, {"T", 1 << 40}, {"B", 1},
}

// mostBytes is more than any machine offers.
const mostBytes = 1 << 50

func (s *byteSize) Set(text string) error {
	number, factor := strings.ToUpper(strings.TrimSpace(text)), 1.0
	for _, u := range units {
		if short, ok := strings.CutSuffix(number, strings.ToUpper(u.suffix)); ok {
			number, factor = strings.TrimSpace(short), u.bytes
			break
		}
	}
	n, err := strconv.ParseFloat(number, 64)
	if n *= factor; err != nil && !errors.Is(err, strconv.ErrRange) || strings.ContainsAny(number, "XP_NI") || !(n >= 1) {
		return fmt.Errorf("%.100q is no size, use one such as 512MiB, 4GiB or 2GB", text)
	}
	if n > mostBytes {
		return fmt.Errorf("%.100q is more than any machine has, at most %d TiB are allowed", text, mostBytes>>40)
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
