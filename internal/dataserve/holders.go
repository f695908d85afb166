package dataserve

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

const (
	streamsAhead  = 2 // streams to one peer for chunks that are fetched ahead
	streamsUrgent = 3 // and for those that somebody waits for
	maxHolders    = 256
	firstPause    = 100 * time.Millisecond // after a failure of a holder; twice as long after the next one
	lastPause     = 5 * time.Second
	haveLasts     = 2 * time.Second  // a peer that lacks a chunk may have it later
	idleLasts     = 30 * time.Second // of a stream; less than serveIdle
)

// holder is a peer that may have chunks. All of it belongs to Fetcher.mu.
type holder struct {
	Peer
	busy   int       // requests under way
	idle   []*stream // open, without a request
	fails  int       // in a row
	after  time.Time // it is not asked before
	banned bool      // it lied
	why    string    // what was last wrong with it, for people

	have   []byte    // a bit for each chunk that it had at haveAt; empty: all
	haveAt time.Time // zero: unknown
}

// may says whether h is worth asking for chunk i at that time; i below 0 stands for hashes, which everybody has.
func (h *holder) may(i int, now time.Time) bool {
	return i < 0 || h.haveAt.IsZero() || len(h.have) == 0 || hasBit(h.have, i) || now.Sub(h.haveAt) >= haveLasts
}

// acquire waits for a holder that may have chunk i, and counts a request to it. It gives up at deadline, and at once when
// there is nobody left who could be asked later; or else it says so and waits, see Persist.
func (f *Fetcher) acquire(ctx context.Context, i int, urgent *atomic.Bool, deadline time.Time) (*holder, error) {
	for {
		f.mu.Lock()
		h, wait := f.choose(i, urgent.Load(), time.Now())
		change := f.change
		var err error
		if h == nil && (wait < 0 || !time.Now().Before(deadline)) {
			err = f.nobody(i)
		}
		f.mu.Unlock()
		if err != nil && i >= 0 && urgent.Load() && f.lack.miss(i, err) {
			deadline, err = time.Now().Add(lastPause), nil // then others may be there
			wait = lastPause
		}
		if h != nil || err != nil {
			return h, err
		}
		timer := time.NewTimer(min(wait, max(0, time.Until(deadline))))
		select {
		case <-change:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
}

// choose picks the least busy holder that may have chunk i. If there is none now, it says how long to wait, or -1 if none
// will do. It is called with the lock held.
func (f *Fetcher) choose(i int, urgent bool, now time.Time) (best *holder, wait time.Duration) {
	f.meet()
	limit, wait, ties := streamsAhead, -1, 0
	if urgent {
		limit = streamsUrgent
	}
	later := func(t time.Time) {
		if d := max(time.Millisecond, t.Sub(now)); wait < 0 || d < wait {
			wait = d
		}
	}
	for _, h := range f.holders {
		switch {
		case h.banned:
		case now.Before(h.after):
			later(h.after)
		case !h.may(i, now):
			later(h.haveAt.Add(haveLasts))
		case h.busy >= limit:
			later(now.Add(lastPause)) // or when a request is over
		case best == nil || h.busy < best.busy:
			best, ties = h, 1
		case h.busy == best.busy:
			if ties++; rand.IntN(ties) == 0 {
				best = h
			}
		}
	}
	if best != nil {
		best.busy++
	}
	return best, wait
}

// meet takes in peers that are new.
func (f *Fetcher) meet() {
	for _, p := range f.cfg.Peers() {
		h := f.holders[p.ID]
		switch {
		case h != nil:
			h.Addrs = slices.Clone(p.Addrs)
		case len(f.holders) < maxHolders:
			f.holders[p.ID] = &holder{Peer: Peer{ID: p.ID, Addrs: slices.Clone(p.Addrs)}}
		}
	}
}

// nobody is the error when no holder gives a chunk.
func (f *Fetcher) nobody(i int) error {
	what := "the hashes of the run's data"
	if i >= 0 {
		file, offset, n := f.manifest.Place(i)
		what = fmt.Sprintf("bytes %d to %d of %s", offset, offset+int64(n)-1, f.manifest.Files[file].Name)
	}
	var whys []string
	for _, h := range f.holders {
		why := h.why
		if why == "" {
			why = "it does not have them"
		}
		whys = append(whys, fmt.Sprintf("%s: %s", h.ID, why))
	}
	slices.Sort(whys)
	if len(whys) == 0 {
		return &nobodyError{fmt.Sprintf("data: %s are not here, and there is nobody to ask", what)}
	}
	const told = 4
	more := ""
	if len(whys) > told {
		whys, more = whys[:told], fmt.Sprintf("; and %d more", len(whys)-told)
	}
	return &nobodyError{fmt.Sprintf("data: none of %d peers gave %s: %s%s", len(f.holders), what, strings.Join(whys, "; "), more)}
}

// nobodyError says that no holder gives a chunk.
type nobodyError struct{ text string }

func (e *nobodyError) Error() string { return e.text }

// release ends a request.
func (f *Fetcher) release(h *holder) {
	f.mu.Lock()
	defer f.mu.Unlock()
	h.busy--
	f.signal()
}

// signal wakes those who wait for a holder. It is called with the lock held.
func (f *Fetcher) signal() {
	close(f.change)
	f.change = make(chan struct{})
}

// succeeded notes that h gave what it was asked for.
func (f *Fetcher) succeeded(h *holder) {
	f.mu.Lock()
	defer f.mu.Unlock()
	h.fails, h.why = 0, ""
}

// learn notes what h has.
func (f *Fetcher) learn(h *holder, have []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	h.have, h.haveAt, h.why = have, time.Now(), ""
}

// failed notes what went wrong with h. One that lied or refused is asked no more, others later.
func (f *Fetcher) failed(h *holder, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	h.why = err.Error()
	if errors.Is(err, errLied) || errors.Is(err, errProtocol) || errors.Is(err, errRefused) {
		h.banned = true
		f.cfg.Log.Warn("a peer is asked for no more data", "peer", h.ID, "err", err)
	} else {
		h.after = time.Now().Add(min(lastPause, firstPause<<min(h.fails, 10)))
		h.fails++
		f.cfg.Log.Debug("a peer did not give data", "peer", h.ID, "err", err)
	}
	h.closeIdle() // its other streams are no better
}

func (h *holder) closeIdle() {
	for _, s := range h.idle {
		s.conn.Close()
	}
	h.idle = nil
}

// keep lets a stream be used again.
func (f *Fetcher) keep(h *holder, s *stream) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed || h.banned {
		s.conn.Close()
		return
	}
	s.since = time.Now()
	h.idle = append(h.idle, s)
}

// reuse takes an open stream to h, or tells where h can be dialled. Streams that were not used for long are closed: the
// other side does so too.
func (f *Fetcher) reuse(h *holder) (s *stream, addrs []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(h.idle) > 0 {
		s := h.idle[len(h.idle)-1]
		h.idle = h.idle[:len(h.idle)-1]
		if time.Since(s.since) < idleLasts {
			return s, nil
		}
		s.conn.Close()
	}
	return nil, h.Addrs
}
