package kernel

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strings"
)

// Checked is the front that every backend shares: it implements Ops by checking each call against the contract (type,
// length, ownership, overlap) and passing it to Raw only if it is sound. So Raw may trust its arguments.
type Checked struct {
	Raw  Ops
	Host Host
}

// Host is what Checked needs of a device.
type Host interface {
	// Owns says whether b, which is not the zero Buffer, is memory of this device and not freed.
	Owns(b Buffer) bool
	// Fail records a fault; the device keeps the first.
	Fail(err error)
	// Cancelled is not nil once ops are to do nothing any more.
	Cancelled() error
}

var _ Ops = (*Checked)(nil)

type access uint8

const (
	read   access = iota // must not overlap what the op writes
	alias                // like read, but an output may be exactly this window
	write                // must not overlap any other buffer that the op writes
	absent               // an optional buffer that was not given
)

// arg is one buffer of a call and what the contract asks of it.
type arg struct {
	name string
	b    Buffer
	t    DType
	n    int
	how  access
}

// dims are a call's sizes with their names, for messages.
type dims struct {
	names string
	v     [5]int
}

// in, inPlace and out are F32 arguments of n elements.
func in(name string, b Buffer, n int) arg      { return arg{name, b, F32, n, read} }
func inPlace(name string, b Buffer, n int) arg { return arg{name, b, F32, n, alias} }
func out(name string, b Buffer, n int) arg     { return arg{name, b, F32, n, write} }

// typed is a with another element type.
func (a arg) typed(t DType) arg { a.t = t; return a }

// area is the product of sizes, or -1 (which no buffer's length equals) if one is negative or the product overflows.
func area(v ...int) int {
	if slices.Contains(v, 0) {
		v = nil
	}
	p := uint64(min(len(v), 1))
	for _, x := range v {
		hi, lo := bits.Mul64(p, uint64(x))
		if x < 0 || hi != 0 || lo > math.MaxInt {
			return -1
		}
		p = lo
	}
	return int(p)
}

// ok reports the first fault of a call to the host.
func (c *Checked) ok(op string, d dims, args ...arg) bool {
	if c.Host.Cancelled() != nil {
		return false
	}
	for i := range args {
		if why := c.fault(args, i); why != "" {
			c.Host.Fail(fmt.Errorf("kernel: %s(%s): %s %s", op, d, args[i].name, why))
			return false
		}
	}
	return true
}

// refuse reports a size that an op can't work with.
func (c *Checked) refuse(op string, d dims, why string) {
	c.Host.Fail(fmt.Errorf("kernel: %s(%s): %s", op, d, why))
}

func (c *Checked) fault(args []arg, i int) string {
	a := &args[i]
	switch {
	case a.how == absent:
		return ""
	case a.b.Mem == nil:
		return fmt.Sprintf("is no buffer, want %v of length %d", a.t, a.n)
	case !c.Host.Owns(a.b):
		return "is freed, or belongs to another device"
	case a.b.Mem.DType() != a.t || a.b.Len != a.n || a.n < 0:
		return fmt.Sprintf("is %v of length %d, want %v of length %d", a.b.Mem.DType(), a.b.Len, a.t, a.n)
	case a.b.Off < 0 || a.b.Off > a.b.Mem.Len()-a.b.Len:
		return fmt.Sprintf("reaches from %d to %d in memory of length %d", a.b.Off, a.b.Off+a.b.Len, a.b.Mem.Len())
	case a.how != write:
		return ""
	}
	for j := range args {
		o := &args[j]
		if j == i || o.how == absent || !overlap(a.b, o.b) || (o.how == alias && a.b == o.b) {
			continue
		}
		return "overlaps " + o.name
	}
	return ""
}

func overlap(a, b Buffer) bool {
	return a.Mem == b.Mem && a.Len > 0 && b.Len > 0 && a.Off < b.Off+b.Len && b.Off < a.Off+a.Len
}

func (d dims) String() string {
	var s strings.Builder
	for i, n := range strings.Fields(d.names) {
		if i > 0 {
			s.WriteByte(' ')
		}
		fmt.Fprintf(&s, "%s=%d", n, d.v[i])
	}
	return s.String()
}

func rowsCols(rows, cols int) dims { return dims{"rows cols", [5]int{rows, cols}} }
func lengths(n int) dims           { return dims{"n", [5]int{n}} }

// CheckTransfer says whether b can take or give size bytes in one piece; if not, it reports that to h. op is the method's
// name, Upload or Download.
func CheckTransfer(h Host, op string, b Buffer, size int) bool {
	switch {
	case b.None() || !h.Owns(b):
		h.Fail(fmt.Errorf("kernel: %s: no buffer, or one that is freed or belongs to another device", op))
	case b.Off < 0 || b.Len < 0 || b.Off > b.Mem.Len()-b.Len || size != b.Len*b.Mem.DType().Size():
		h.Fail(fmt.Errorf("kernel: %s of %d bytes: the buffer has %d elements of %v at offset %d of %d", op, size, b.Len,
			b.Mem.DType(), b.Off, b.Mem.Len()))
	default:
		return true
	}
	return false
}
