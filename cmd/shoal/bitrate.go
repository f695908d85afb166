package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// bitRate is a flag's value: bits per second, as in 100Mbit, 1Gbit/s or 10MB, which are bytes.
type bitRate float64

// rateUnits are tried in this order: the longer suffix first. A small b alone would be read as either.
var rateUnits = []struct {
	suffix string
	bits   float64
}{
	{"kbit", 1e3}, {"Mbit", 1e6}, {"Gbit", 1e9}, {"bit", 1},
	{"kB", 8e3}, {"KB", 8e3}, {"MB", 8e6}, {"GB", 8e9}, {"B", 8},
}

// mostBits is more than any link carries in a second.
const mostBits = 1e15

func (r *bitRate) Set(text string) error {
	number, factor := strings.TrimSuffix(strings.TrimSpace(text), "/s"), 0.0
	for _, u := range rateUnits {
		if short, ok := strings.CutSuffix(number, u.suffix); ok {
			number, factor = strings.TrimSpace(short), u.bits
			break
		}
	}
	n, err := strconv.ParseFloat(number, 64)
	if n *= factor; err != nil || strings.ContainsAny(number, "xXpP_") || !(n >= 1 && n <= mostBits) {
		return fmt.Errorf("%.100q is no speed of a network, use one such as 100Mbit, 1Gbit or 10MB (a second)", text)
	}
	*r = bitRate(n)
	return nil
}

func (r *bitRate) String() string {
	n := float64(*r)
	if n == 0 {
		return ""
	}
	for _, u := range []struct {
		suffix string
		bits   float64
	}{{"Gbit", 1e9}, {"Mbit", 1e6}, {"kbit", 1e3}} {
		if n >= u.bits {
			return strconv.FormatFloat(math.Round(1000*n/u.bits)/1000, 'f', -1, 64) + u.suffix
		}
	}
	return strconv.FormatFloat(n, 'f', -1, 64) + "bit"
}

func (r *bitRate) Type() string { return "speed" }
