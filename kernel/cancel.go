package kernel

import "sync/atomic"

// Cancellation is what a device embeds to implement Device.Cancel. The zero value is ready.
type Cancellation struct{ err atomic.Pointer[error] }

// Cancel implements Device.
func (c *Cancellation) Cancel(err error) { c.err.CompareAndSwap(nil, &err) }

// Cancelled is what Cancel was first given, or nil.
func (c *Cancellation) Cancelled() error {
	if p := c.err.Load(); p != nil {
		return *p
	}
	return nil
}
