package main

import (
	"time"

	"shoal/kernel"
)

// clocked is a device that takes the time of its products and attention ops. kernel/cpu has computed when a call returns.
type clocked struct {
	kernel.Device
	products, attention time.Duration
}

func (d *clocked) MatMul(t kernel.Trans, c, a, b kernel.Buffer, m, n, k int, accumulate bool) {
	defer since(&d.products, time.Now())
	d.Device.MatMul(t, c, a, b, m, n, k, accumulate)
}

func (d *clocked) Attention(y, stats, qkv kernel.Buffer, s kernel.AttentionShape) {
	defer since(&d.attention, time.Now())
	d.Device.Attention(y, stats, qkv, s)
}

func (d *clocked) AttentionBackward(dqkv, dy, y, qkv, stats kernel.Buffer, s kernel.AttentionShape) {
	defer since(&d.attention, time.Now())
	d.Device.AttentionBackward(dqkv, dy, y, qkv, stats, s)
}

func since(total *time.Duration, start time.Time) { *total += time.Since(start) }
