package wirebench

import (
	"cmp"
	"context"
	"net"
	"sync"
	"time"

	"shoal/internal/median"
	"shoal/internal/sysinfo"
)

// Result is what Run has measured: medians over the rounds. Its JSON is an interface.
type Result struct {
	Connection string    `json:"connection"` // as in "tcp, TLS, yamux"
	RoundTrip  RoundTrip `json:"round_trip_us"`
	Put        Rate      `json:"there"`        // from the end that measures
	Get        Rate      `json:"back"`         // to it
	Both       Rate      `json:"both_at_once"` // the bytes of both ways together
	Packing    []Class   `json:"packing"`
}

// RoundTrip is how long a small message takes there and back, in microseconds.
type RoundTrip struct {
	Idle   float64 `json:"idle"`
	Behind float64 `json:"behind_bulk"` // while a bulk transfer goes on, on the same connection
}

// Rate is how fast bytes are moved, and what that costs.
type Rate struct {
	MBS      float64 `json:"mb_per_second"`      // 10^6 bytes a second
	CPUPerGB float64 `json:"cpu_seconds_per_gb"` // of both ends together, for 10^9 bytes; 0 where a system can't be asked
}

// Config says what Run measures.
type Config struct {
	Open       func(context.Context) (net.Conn, error) // a stream to the other end, where a Server serves it
	Connection func() string                           // describes the connection, once there is one
	Rounds     int                                     // 0: 5
	Slice      time.Duration                           // of one measurement in a round; 0: 200 ms
}

// ends are the two streams to the other end.
type ends struct {
	put, get *Stream
	rounds   int
	slice    time.Duration
}

// Run measures, which takes some seconds, and tells the other end that this was all. Its error is that of Open, of a stream,
// or of ctx.
func Run(ctx context.Context, c Config) (*Result, error) {
	r, err := run(ctx, c)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return r, err
}

func run(ctx context.Context, c Config) (*Result, error) {
	e := &ends{rounds: cmp.Or(c.Rounds, 5), slice: cmp.Or(c.Slice, 200*time.Millisecond)}
	for _, s := range []**Stream{&e.put, &e.get} {
		conn, err := c.Open(ctx)
		if err != nil {
			return nil, err
		}
		defer conn.Close()
		defer context.AfterFunc(ctx, func() { conn.Close() })()
		*s = NewStream(conn)
	}
	r := &Result{Connection: c.Connection()}
	var err error
	if r.RoundTrip.Idle, err = e.echoes(ctx); err != nil {
		return nil, err
	}
	size, err := e.rates(r)
	if err != nil {
		return nil, err
	}
	if r.RoundTrip.Behind, err = e.behind(ctx, size); err != nil {
		return nil, err
	}
	if r.Packing, err = packing(ctx, r.Put); err != nil {
		return nil, err
	}
	return r, e.get.End()
}

// echoes is the median of small messages for about a slice, in microseconds.
func (e *ends) echoes(ctx context.Context) (float64, error) {
	var took []float64
	for start := time.Now(); len(took) < 3 || time.Since(start) < e.slice; {
		d, err := e.get.Echo()
		if err != nil {
			return 0, err
		}
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
		took = append(took, float64(d)/float64(time.Microsecond))
	}
	return median.Of(took), nil
}

// behind is echoes while the other stream moves size bytes again and again.
func (e *ends) behind(ctx context.Context, size int64) (us float64, err error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	bulk := make(chan error, 1)
	go func() {
		for ctx.Err() == nil {
			if _, err := e.put.Put(size); err != nil {
				bulk <- err
				return
			}
		}
		bulk <- nil
	}()
	us, err = e.echoes(ctx)
	stop()
	return us, cmp.Or(err, <-bulk)
}

// rates fills in what bulk transfers reach, and says how many bytes take a slice there.
func (e *ends) rates(r *Result) (put int64, err error) {
	if put, err = Fill(e.slice, e.put.Put); err != nil {
		return 0, err
	}
	get, err := Fill(e.slice, e.get.Get)
	if err != nil {
		return 0, err
	}
	each := min(put, get)
	kinds := []struct {
		rate  *Rate
		bytes int64
		move  func() (time.Duration, error)
	}{
		{&r.Put, put, func() (time.Duration, error) { return e.put.Put(put) }},
		{&r.Get, get, func() (time.Duration, error) { return e.get.Get(get) }},
		{&r.Both, 2 * each, func() (time.Duration, error) { return e.both(each) }},
	}
	rates, costs := make([][]float64, len(kinds)), make([][]float64, len(kinds))
	for range e.rounds {
		for i, k := range kinds {
			took, cpu, err := e.costing(k.move)
			if err != nil {
				return 0, err
			}
			rates[i] = append(rates[i], float64(k.bytes)/1e6/took.Seconds())
			costs[i] = append(costs[i], cpu.Seconds()/(float64(k.bytes)/1e9))
		}
	}
	for i, k := range kinds {
		*k.rate = Rate{median.Of(rates[i]), median.Of(costs[i])}
	}
	return put, nil
}

// both moves n bytes each way at once.
func (e *ends) both(n int64) (time.Duration, error) {
	start := time.Now()
	var there sync.WaitGroup
	var err error
	there.Go(func() { _, err = e.put.Put(n) })
	_, back := e.get.Get(n)
	there.Wait()
	return time.Since(start), cmp.Or(err, back)
}

// costing is move with the processor time that it takes at both ends; 0 where one of the systems can't be asked.
func (e *ends) costing(move func() (time.Duration, error)) (took, cpu time.Duration, err error) {
	there, err := e.get.CPU()
	if err != nil {
		return 0, 0, err
	}
	here := sysinfo.CPU()
	if took, err = move(); err != nil {
		return 0, 0, err
	}
	after, err := e.get.CPU()
	if here == 0 || there == 0 {
		return took, 0, err
	}
	return took, sysinfo.CPU() - here + after - there, err
}
