package main

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// slowLAN is a network whose cables carry so many bits per second in each direction, behind a switch that keeps each frame
// for a while. Tokens of the system's tbf make the rate. The switch is here, since many systems lack netem.
type slowLAN struct {
	*lan
	ports []*slowPort
	delay time.Duration
	homes map[[6]byte]*slowPort // by address of the machine behind it
	stop  chan struct{}         // ends the switch
	ended chan struct{}
}

// slowPort is the switch's end of a cable.
type slowPort struct {
	socket int
	queue  []frame // on their way to it
}

type frame struct {
	due  time.Time
	data []byte // behind a virtioHeader, with which the system says what it has left to do: checksums, cutting to size
}

const (
	// The switch looks for frames so often. Woken by each of them it took a quarter more of the processors' time, which those
	// who are measured lack.
	switchTick = time.Millisecond

	virtioHeader = 10
	frameQueue   = 4096      // frames on their way to a port, more than a delay's worth
	socketBytes  = 16 << 20  // buffers of a socket, so that a port's tbf is what is full first
	largestFrame = 128 << 10 // of what the system has not cut to size yet
)

// newSlowLAN makes n machines whose cables carry rate, as in "100mbit". They are gone when the test ends.
func newSlowLAN(t *testing.T, n int, rate string, delay time.Duration) *slowLAN {
	t.Helper()
	if _, err := exec.LookPath("tc"); err != nil {
		t.Skip("slow links need the program tc (package iproute2)")
	}
	l := &slowLAN{lan: newLAN(t, n), delay: delay, homes: map[[6]byte]*slowPort{}, stop: make(chan struct{}), ended: make(chan struct{})}
	for i, machine := range l.machines {
		l.ip("-n", l.hub, "link", "set", port(i), "nomaster")
		l.shape(machine, "shoal0", rate)
		l.shape(l.hub, port(i), rate)
	}
	t.Cleanup(func() {
		for _, p := range l.ports {
			unix.Close(p.socket)
		}
	})
	for i := range l.machines {
		socket, err := l.socket(port(i))
		if err != nil {
			t.Skipf("this system makes no such switch: %v", err)
		}
		l.ports = append(l.ports, &slowPort{socket: socket})
	}
	go l.carry()
	t.Cleanup(func() {
		close(l.stop)
		<-l.ended
	})
	return l
}

// shape limits what leaves a device.
func (l *slowLAN) shape(namespace, device, rate string) {
	l.t.Helper()
	out, err := exec.Command("tc", "-n", namespace, "qdisc", "add", "dev", device, "root", "tbf", "rate", rate, "burst", "64kb", "latency", "50ms").CombinedOutput()
	if err != nil {
		l.t.Skipf("this system makes no slow links: %s", out)
	}
}

// inNamespace calls f on a thread that is in a network namespace.
func inNamespace(name string, f func() error) error {
	runtime.LockOSThread()
	home, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return err
	}
	defer home.Close()
	there, err := os.Open("/run/netns/" + name)
	if err != nil {
		return err
	}
	defer there.Close()
	if err := unix.Setns(int(there.Fd()), unix.CLONE_NEWNET); err != nil {
		return err
	}
	err = f()
	if back := unix.Setns(int(home.Fd()), unix.CLONE_NEWNET); back != nil {
		return errors.Join(err, back) // the thread stays locked, and ends with its goroutine
	}
	runtime.UnlockOSThread()
	return err
}

// socket is all that comes out of a device of the hub, and goes into it.
func (l *slowLAN) socket(device string) (fd int, err error) {
	err = inNamespace(l.hub, func() error {
		dev, err := net.InterfaceByName(device)
		if err != nil {
			return err
		}
		if fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0); err != nil {
			return err
		}
		all := binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, unix.ETH_P_ALL))
		return errors.Join(
			unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_VNET_HDR, 1),
			unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1),
			unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, socketBytes),
			unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, socketBytes),
			unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: dev.Index}))
	})
	return fd, err
}

// carry is the switch.
func (l *slowLAN) carry() {
	defer close(l.ended)
	tick := time.NewTicker(switchTick)
	defer tick.Stop()
	buf := make([]byte, largestFrame)
	for {
		select {
		case <-l.stop:
			return
		case <-tick.C:
		}
		now := time.Now()
		for _, p := range l.ports {
			l.read(p, now, buf)
		}
		for _, p := range l.ports {
			p.write(now)
		}
	}
}

// read takes what a machine has sent.
func (l *slowLAN) read(from *slowPort, now time.Time, buf []byte) {
	for {
		n, err := unix.Read(from.socket, buf)
		if err != nil { // there is no more
			return
		}
		if n < virtioHeader+14 {
			continue
		}
		f := frame{now.Add(l.delay), slices.Clone(buf[:n])}
		for _, to := range l.route(from, [6]byte(f.data[virtioHeader:]), [6]byte(f.data[virtioHeader+6:])) {
			if len(to.queue) < frameQueue { // else it is lost, as in any switch that is full
				to.queue = append(to.queue, f)
			}
		}
	}
}

// route learns where a machine is, and says which ports a frame for another goes to: all, as long as that isn't known.
func (l *slowLAN) route(from *slowPort, to, sender [6]byte) (list []*slowPort) {
	l.homes[sender] = from
	if p := l.homes[to]; p != nil {
		return []*slowPort{p}
	}
	return slices.DeleteFunc(slices.Clone(l.ports), func(p *slowPort) bool { return p == from })
}

// write gives a machine what is due.
func (p *slowPort) write(now time.Time) {
	for len(p.queue) > 0 && !p.queue[0].due.After(now) {
		_, _ = unix.Write(p.socket, p.queue[0].data) // where tbf is full it is lost
		p.queue = p.queue[1:]
	}
}

// carried is how many bytes have left a device since it is there, with all headers, as its tbf counts them.
func (l *slowLAN) carried(namespace, device string) int64 {
	l.t.Helper()
	text, err := exec.Command("tc", "-n", namespace, "-s", "-j", "qdisc", "show", "dev", device).Output()
	var list []struct{ Bytes int64 }
	if err == nil {
		err = json.Unmarshal(text, &list)
	}
	if err != nil || len(list) != 1 {
		l.t.Fatalf("what %s has carried: %v, %s", device, err, text)
	}
	return list[0].Bytes
}

// traffic is how many bytes each machine has sent and has got, two figures for each.
func (l *slowLAN) traffic() (list []int64) {
	for i, machine := range l.machines {
		list = append(list, l.carried(machine, "shoal0"), l.carried(l.hub, port(i)))
	}
	return list
}

// The links of a slow network are as slow as they are meant to be: to connect takes two delays, and what is carried takes
// the time that the rate says.
func TestSlowLAN(t *testing.T) {
	const rate, bytes, delay = 100e6, 10 << 20, 20 * time.Millisecond
	l := newSlowLAN(t, 2, "100mbit", delay)
	var server net.Listener
	var client net.Conn
	if err := inNamespace(l.machines[0], func() (err error) {
		server, err = net.Listen("tcp4", "10.77.0.1:0")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	first := time.Now()
	dial := func() (err error) {
		client, err = net.Dial("tcp4", server.Addr().String())
		return err
	}
	if err := inNamespace(l.machines[1], dial); err != nil {
		t.Fatal(err)
	}
	client.Close() // the first one has looked for the machine's address, too
	begin := time.Now()
	if err := inNamespace(l.machines[1], dial); err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if took := time.Since(begin); took < 2*delay || took > 6*delay {
		t.Errorf("to connect took %v, and before that %v, want some more than %v", took, begin.Sub(first), 2*delay)
	}
	var there []net.Conn
	for range 2 {
		conn, err := server.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		there = append(there, conn)
	}
	begin = time.Now()
	go client.Write(make([]byte, bytes))
	if _, err := io.ReadFull(there[1], make([]byte, bytes)); err != nil {
		t.Fatal(err)
	}
	took, want := time.Since(begin).Seconds(), bytes*8/rate
	if n := slices.Max(l.traffic()); n < bytes || n > bytes+bytes/8 {
		t.Errorf("the link has carried %d bytes of %d", n, bytes)
	}
	t.Logf("%d bytes took %.3f s", bytes, took)
	if took < want || took > 2*want {
		t.Errorf("%d bytes took %.2f s, want %.2f s", bytes, took, want)
	}
}
