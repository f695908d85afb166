package dataserve

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"shoal/internal/data"
)

// ErrClosed is returned by everything after Close.
var ErrClosed = errors.New("dataserve: the fetcher is closed")

// Config is what a Fetcher is made from. Zero means default where one is named.
type Config struct {
	Transport   Transport
	Run, Secret string
	// Peers are those who may be asked; more may come with time. It is called often, and must neither block nor call the
	// Fetcher.
	Peers func() []Peer

	Folder string        // for chunks on disk; "" means none
	Disk   int64         // bytes that it may have; default 4 GiB
	Memory int           // chunks of 1 MiB that are kept in memory; default 64, at least 8
	Wait   time.Duration // for a dial, an answer and each piece of a chunk; default 10 s. A chunk may take four times that
	GiveUp time.Duration // after which a chunk that nobody gives is an error; default 20 s
	Log    *slog.Logger  // nil: silent
}

const (
	defaultDisk   = 4 << 30
	defaultMemory = 64
	leastMemory   = 8
	defaultWait   = 10 * time.Second
	defaultGiveUp = 20 * time.Second
	parallel      = 4    // chunks that are fetched ahead at a time
	lookAhead     = 8192 // entries of a plan that are looked at
)

func (c *Config) validate() error {
	if c.Disk == 0 {
		c.Disk = defaultDisk
	}
	if c.Memory == 0 {
		c.Memory = defaultMemory
	}
	if c.Wait == 0 {
		c.Wait = defaultWait
	}
	if c.GiveUp == 0 {
		c.GiveUp = defaultGiveUp
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	switch {
	case c.Transport == nil || c.Peers == nil:
		return errors.New("dataserve: Config.Transport and Config.Peers are needed")
	case c.Memory < leastMemory:
		return fmt.Errorf("dataserve: Config.Memory is %d chunks, at least %d are needed", c.Memory, leastMemory)
	case c.Disk < 0 || c.Wait < 0 || c.GiveUp < 0:
		return errors.New("dataserve: Config.Disk, Wait and GiveUp can't be negative")
	}
	return nil
}

// Fetcher gets the chunks of a data set from others. Its methods may be called from any goroutine.
type Fetcher struct {
	cfg            Config
	total          int // chunks
	manifest       *data.Manifest
	memory         *memory
	disk           *disk // nil: none
	sent, received atomic.Int64

	ctx   context.Context // of all fetching; ends with Stop
	stop  context.CancelCauseFunc
	tasks sync.WaitGroup // all goroutines; Add before Open returns, or with the lock held and closed false

	mu      sync.Mutex
	closed  bool
	change  chan struct{} // closed and replaced when there is something new for those who wait
	holders map[string]*holder
	calls   map[int]*call // chunks that are being fetched
	queue   []int         // to be fetched ahead

	lack lacking
}

var _ data.ChunkSource = (*Fetcher)(nil)

// call is the fetching of a chunk, for all who want it.
type call struct {
	urgent atomic.Bool   // somebody waits for it
	done   chan struct{} // closed when b or err is there
	b      []byte
	err    error
}

// Open makes a Fetcher of the data set that id names, and fetches the hashes of its chunks, so there must be a peer to
// ask. ctx is for that alone; Close ends the Fetcher.
func Open(ctx context.Context, cfg Config, id data.Identity) (*Fetcher, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	total, err := id.Chunks()
	if err != nil {
		return nil, err
	}
	f := &Fetcher{cfg: cfg, total: total, change: make(chan struct{}), holders: map[string]*holder{}, calls: map[int]*call{}}
	if cfg.Folder != "" {
		if f.disk, err = openDisk(cfg.Folder, cfg.Disk, cfg.Log); err != nil {
			return nil, err
		}
	}
	f.ctx, f.stop = context.WithCancelCause(context.Background())
	if f.manifest, err = f.fetchHashes(ctx, id); err != nil {
		f.Close()
		return nil, err
	}
	// A newcomer reads the files' heads before it knows any other member than the one that it asks.
	f.memory = newMemory(cfg.Memory, func(i int) bool { _, offset, _ := f.manifest.Place(i); return offset == 0 })
	for range parallel {
		f.tasks.Go(f.fetchAhead)
	}
	return f, nil
}

// fetchHashes gets the manifest from the first peer that has the right one.
func (f *Fetcher) fetchHashes(ctx context.Context, id data.Identity) (m *data.Manifest, err error) {
	err = f.try(ctx, -1, new(atomic.Bool), func(h *holder) error {
		m, err = f.hashesFrom(ctx, h, id)
		return err
	})
	return m, err
}

// try calls ask with one holder after another until one has given what is wanted, chunk i or (below 0) the hashes.
func (f *Fetcher) try(ctx context.Context, i int, urgent *atomic.Bool, ask func(h *holder) error) error {
	deadline := time.Now().Add(f.cfg.GiveUp)
	for {
		h, err := f.acquire(ctx, i, urgent, deadline)
		if err != nil {
			return err
		}
		err = ask(h)
		f.release(h)
		switch {
		case err == nil:
			f.succeeded(h)
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case !errors.Is(err, errMissing):
			f.failed(h, err)
		}
	}
}

// Manifest is the data set's. It must not be changed.
func (f *Fetcher) Manifest() *data.Manifest { return f.manifest }

// Chunk gives a chunk; see data.ChunkSource. If it is not here it is fetched.
func (f *Fetcher) Chunk(ctx context.Context, i int) ([]byte, error) {
	if i < 0 || i >= f.total {
		return nil, fmt.Errorf("data: there is no chunk %d of %d", i, f.total)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if b := f.memory.get(i); b != nil {
		return b, nil
	}
	return f.get(ctx, i, true)
}

// get waits for a chunk, which is fetched unless somebody does so already.
func (f *Fetcher) get(ctx context.Context, i int, urgent bool) ([]byte, error) {
	for {
		b, err := f.once(ctx, i, urgent)
		var nobody *nobodyError
		if !urgent || !errors.As(err, &nobody) || !f.lack.waits() {
			return b, err
		}
		// it was given up when it was fetched ahead
	}
}

func (f *Fetcher) once(ctx context.Context, i int, urgent bool) ([]byte, error) {
	f.mu.Lock()
	if f.closed {
		f.mu.Unlock()
		return nil, ErrClosed
	}
	c := f.calls[i]
	if c == nil {
		c = &call{done: make(chan struct{})}
		f.calls[i] = c
		f.tasks.Go(func() { f.answer(i, c) })
	}
	if urgent && !c.urgent.Swap(true) {
		f.signal()
	}
	f.mu.Unlock()
	select {
	case <-c.done:
		return c.b, c.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// answer gets a chunk from memory, disk or others.
func (f *Fetcher) answer(i int, c *call) {
	if c.b = f.memory.get(i); c.b == nil {
		c.b = f.fromDisk(i)
	}
	fetched := c.b == nil
	if fetched {
		c.err = f.try(f.ctx, i, &c.urgent, func(h *holder) (err error) {
			c.b, err = f.chunkFrom(f.ctx, h, i)
			return err
		})
	}
	if c.err == nil {
		f.memory.put(i, c.b)
	}
	f.lack.got(i)
	f.mu.Lock()
	delete(f.calls, i)
	close(c.done)
	f.mu.Unlock()
	if fetched && c.err == nil {
		f.disk.put(f.manifest.Leaves[i], c.b)
	}
}

func (f *Fetcher) fromDisk(i int) []byte {
	_, _, n := f.manifest.Place(i)
	return f.disk.get(f.manifest.Leaves[i], n, func(b []byte) bool { return f.manifest.Verify(i, b) })
}

// Follow has the chunks that plan yields fetched ahead, in that order, in place of those of an earlier plan: as many of
// the first ones as half of the memory has room for. plan is not kept.
func (f *Fetcher) Follow(plan iter.Seq[int]) {
	var queue []int
	seen, looked := map[int]bool{}, 0
	for i := range plan {
		if looked++; looked > lookAhead || len(seen) >= min(f.total, f.cfg.Memory/2) {
			break
		}
		if i < 0 || i >= f.total || seen[i] {
			continue
		}
		seen[i] = true
		if f.memory.get(i) == nil { // which counts as use: it stays until it is needed
			queue = append(queue, i)
		}
	}
	f.mu.Lock()
	f.queue = queue
	f.signal()
	f.mu.Unlock()
}

// fetchAhead fetches what Follow has queued.
func (f *Fetcher) fetchAhead() {
	for {
		f.mu.Lock()
		change, next := f.change, -1
		if len(f.queue) > 0 {
			next, f.queue = f.queue[0], f.queue[1:]
		}
		f.mu.Unlock()
		if next >= 0 {
			if _, err := f.get(f.ctx, next, false); err != nil && f.ctx.Err() == nil {
				f.cfg.Log.Debug("a chunk was not fetched ahead", "chunk", next, "err", err)
			}
			if f.ctx.Err() != nil {
				return
			}
			continue
		}
		select {
		case <-change:
		case <-f.ctx.Done():
			return
		}
	}
}

// Held is what a Server can give to others: the chunks that are in memory or on disk.
func (f *Fetcher) Held() Store { return held{f} }

type held struct{ f *Fetcher }

func (h held) Has(i int) bool {
	return h.f.memory.peek(i) != nil || h.f.disk.has(h.f.manifest.Leaves[i])
}

func (h held) Chunk(_ context.Context, i int) ([]byte, error) {
	if b := h.f.memory.peek(i); b != nil {
		return b, nil
	}
	if b := h.f.fromDisk(i); b != nil {
		return b, nil
	}
	return nil, ErrMissing
}

// Stats counts what was sent and received so far.
func (f *Fetcher) Stats() Stats { return Stats{f.sent.Load(), f.received.Load()} }

// Stop ends all fetching: whoever waits for a chunk, or wants one that is not here, gets cause. What is here can still be
// read.
func (f *Fetcher) Stop(cause error) { f.stop(cause) }

// Close ends the Fetcher and waits for its goroutines. It may be called twice.
func (f *Fetcher) Close() {
	f.stop(ErrClosed)
	f.mu.Lock()
	f.closed = true
	for _, h := range f.holders {
		h.closeIdle()
	}
	f.mu.Unlock()
	f.tasks.Wait()
}
