package wirebench

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// server serves streams that open returns, until the test ends.
func server(t *testing.T) (s *Server, open func(context.Context) (net.Conn, error)) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s = NewServer()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go s.Serve(c) // ends with the stream
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-ended
	})
	return s, func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", l.Addr().String())
	}
}

func TestRun(t *testing.T) {
	s, open := server(t)
	r, err := Run(t.Context(), Config{Open: open, Connection: func() string { return "a line" }, Rounds: 2, Slice: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	<-s.Done()
	if r.Connection != "a line" || r.RoundTrip.Idle <= 0 || r.RoundTrip.Behind <= 0 {
		t.Errorf("got %+v", r)
	}
	for _, rate := range []Rate{r.Put, r.Get, r.Both} {
		if rate.MBS <= 0 || rate.CPUPerGB < 0 {
			t.Errorf("got %+v", rate)
		}
	}
	if len(r.Packing) != 3 {
		t.Fatalf("got %+v", r.Packing)
	}
	for _, c := range r.Packing {
		if c.Packed < 0.5*float64(c.Width) || c.Packed >= float64(c.Width) || c.Pack <= 0 || c.Unpack <= 0 {
			t.Errorf("got %+v", c)
		}
	}
}

// A slow link is worth packing for, one faster than any packing is not.
func TestPackingFollowsLink(t *testing.T) {
	for _, speed := range []float64{0.1, 1e6} {
		all, err := packing(t.Context(), Rate{MBS: speed})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range all {
			if c.Pays != (speed < 1) {
				t.Errorf("at %v MB/s: %+v", speed, c)
			}
		}
	}
}

func TestRunEndsWithContext(t *testing.T) {
	_, open := server(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	started := func() string { cancel(why); return "" }
	if _, err := Run(ctx, Config{Open: open, Connection: started, Slice: time.Hour}); !errors.Is(err, why) {
		t.Errorf("got %v", err)
	}
}

func TestRunFails(t *testing.T) {
	broken := errors.New("no way")
	if _, err := Run(t.Context(), Config{Open: func(context.Context) (net.Conn, error) { return nil, broken }}); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	// Somebody answers who is no Server.
	open := func(context.Context) (net.Conn, error) {
		here, there := net.Pipe()
		go func() {
			defer there.Close()
			var r request
			io.ReadFull(there, r[:])
			r[0] = 99
			there.Write(r[:])
		}()
		return here, nil
	}
	_, err := Run(t.Context(), Config{Open: open, Connection: func() string { return "" }})
	if err == nil || !strings.Contains(err.Error(), "same version") {
		t.Errorf("got %v", err)
	}
}

func TestServeRefuses(t *testing.T) {
	for _, r := range []request{newRequest(0, 0), newRequest(77, 0), newRequest(askTake, maxBulk+1), newRequest(askGive, maxBulk+1)} {
		here, there := net.Pipe()
		go func() {
			here.Write(r[:])
			here.Close()
		}()
		if err := NewServer().Serve(there); err == nil || !strings.Contains(err.Error(), "makes no sense") {
			t.Errorf("request %v: %v", r, err)
		}
	}
}

func TestFill(t *testing.T) {
	const perByte = time.Nanosecond
	n, err := Fill(time.Second, func(n int64) (time.Duration, error) { return time.Duration(n) * perByte, nil })
	if took := time.Duration(n) * perByte; err != nil || took < time.Second/2 || took > 2*time.Second {
		t.Errorf("%d bytes take %v, %v", n, took, err)
	}
	broken := errors.New("broken")
	if _, err := Fill(time.Second, func(int64) (time.Duration, error) { return 0, broken }); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}
