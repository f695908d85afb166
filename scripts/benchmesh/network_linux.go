package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// inside is set where the network is this program's own.
const inside = "SHOAL_BENCHMESH_INSIDE"

// ownNetwork says whether this process has a network of its own, whose loopback carries nothing but what is measured. If
// not, it runs the program again in one, and returns how that went.
func ownNetwork(ctx context.Context) (bool, error) {
	if os.Getenv(inside) != "" {
		return true, upLoopback()
	}
	self, err := os.Executable()
	if err != nil {
		return false, err
	}
	cmd := exec.CommandContext(ctx, self, os.Args[1:]...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), inside+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Pdeathsig:   syscall.SIGINT,
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	err = cmd.Run()
	if exited := (*exec.ExitError)(nil); errors.As(err, &exited) { // it has said why
		os.Exit(exited.ExitCode())
	}
	return false, err
}

// upLoopback switches the loopback of a new network on.
func upLoopback() error {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	lo.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(s, unix.SIOCSIFFLAGS, lo); err != nil {
		return fmt.Errorf("switching the loopback on: %w", err)
	}
	return nil
}

// loopback is how many bytes have gone over this network's loopback.
func loopback() (int64, error) {
	text, err := os.ReadFile("/proc/self/net/dev")
	if err != nil {
		return 0, err
	}
	return received(string(text), "lo")
}

// received takes an interface's bytes out of what /proc/net/dev says.
func received(dev, name string) (n int64, err error) {
	for line := range strings.Lines(dev) {
		if key, values, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			_, err := fmt.Sscan(values, &n)
			return n, err
		}
	}
	return 0, fmt.Errorf("/proc/net/dev has no interface %s:\n%s", name, dev)
}

// endedCPU is the processor time, in seconds, of this process's children that have ended.
func endedCPU() float64 {
	var r unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_CHILDREN, &r); err != nil {
		return math.NaN()
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano()).Seconds()
}
