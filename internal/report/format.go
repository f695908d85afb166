package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Bytes is n for people: three significant digits, in powers of 1024.
func Bytes(n int64) string {
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	v := float64(n)
	for _, unit := range []string{"KiB", "MiB", "GiB", "TiB", "PiB"} {
		if v /= 1024; v < 999.5 || unit == "PiB" {
			return significant(v) + " " + unit
		}
	}
	return ""
}

// Count is n for people: below 10000 all of it, else three significant digits, in thousands.
func Count(n int64) string {
	if n < 10_000 {
		return strconv.FormatInt(n, 10)
	}
	v := float64(n)
	for _, unit := range []string{"k", "M", "G", "T"} {
		if v /= 1000; v < 999.5 || unit == "T" {
			return significant(v) + unit
		}
	}
	return ""
}

// significant shows v, at least 0, with three digits or all of its whole ones.
func significant(v float64) string {
	switch {
	case v < 9.995:
		return strconv.FormatFloat(v, 'f', 2, 64)
	case v < 99.95:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 0, 64)
}

// grouped is n with thousands apart.
func grouped(n int64) string {
	s := strconv.FormatInt(n, 10)
	sign := ""
	if strings.HasPrefix(s, "-") {
		sign, s = "-", s[1:]
	}
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "\u2009" + s[i:]
	}
	return sign + s
}

// percent is a share of 1 in percent.
func percent(share float64) string {
	if math.IsNaN(share) || math.IsInf(share, 0) {
		return "-"
	}
	return strconv.FormatFloat(100*share, 'f', 1, 64) + "%"
}

// signed is a difference as a share of 1, in percent.
func signed(share float64) string {
	if math.IsNaN(share) || math.IsInf(share, 0) {
		return "-"
	}
	return fmt.Sprintf("%+.1f%%", 100*share)
}

// lossText shows a loss, also one that is not finite.
func lossText(v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return "not finite"
	}
	if v != 0 && (math.Abs(v) < 1e-3 || math.Abs(v) >= 1e6) {
		return strconv.FormatFloat(v, 'e', 2, 64)
	}
	return strconv.FormatFloat(v, 'f', 4, 64)
}

// seconds shows a duration.
func seconds(s float64) string {
	switch {
	case math.IsNaN(s) || s < 0 || s > 1e9:
		return "-"
	case s < 99.95:
		return strconv.FormatFloat(s, 'f', 1, 64) + " s"
	case s < 3600:
		return fmt.Sprintf("%dm %02ds", int(s)/60, int(s)%60)
	}
	return fmt.Sprintf("%dh %02dm", int(s)/3600, int(s)/60%60)
}

// millis shows milliseconds.
func millis(ms Number) string {
	switch v := float64(ms); {
	case math.IsNaN(v) || v < 0:
		return "-"
	case v < 10:
		return strconv.FormatFloat(v, 'f', 1, 64) + " ms"
	case v < 1000:
		return strconv.FormatFloat(v, 'f', 0, 64) + " ms"
	default:
		return strconv.FormatFloat(v/1000, 'f', 2, 64) + " s"
	}
}

// shortID is a peer id's tail, which tells peers apart; their heads are all alike.
func shortID(id string) string {
	const tail = 8
	if r := []rune(id); len(r) > tail {
		return "…" + string(r[len(r)-tail:])
	}
	return id
}

// share is part of whole, 0 of nothing.
func share(part, whole int64) float64 {
	if whole == 0 {
		return 0
	}
	return float64(part) / float64(whole)
}
