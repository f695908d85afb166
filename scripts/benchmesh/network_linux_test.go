package main

import "testing"

func TestReceived(t *testing.T) {
	const dev = `Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo: 1234567      40    0    0    0     0          0         0  1234567      40    0    0    0     0       0          0
  eth0:      99       1    0    0    0     0          0         0        7       1    0    0    0     0       0          0
`
	if n, err := received(dev, "lo"); err != nil || n != 1234567 {
		t.Errorf("%d, %v", n, err)
	}
	if _, err := received(dev, "lo1"); err == nil {
		t.Error("an interface that there isn't")
	}
	if n, err := loopback(); err != nil || n < 0 {
		t.Errorf("this machine: %d, %v", n, err)
	}
}
