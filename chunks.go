package shoal

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"

	"shoal/fsdp"
	"shoal/internal/data"
	"shoal/internal/dataserve"
	"shoal/peer"
	"shoal/swarm"
)

// Members that lack the run's files fetch their chunks from others (internal/dataserve); all give what they have.

// fetchData gets the data set that id names from other members; openFetcher is the same for one that is known.
type (
	fetchData   func(ctx context.Context, id data.Identity) (*dataserve.Fetcher, error)
	openFetcher func(ctx context.Context) (*dataserve.Fetcher, error)
)

// noCache is the Config.Cache of a peer that keeps no chunks on disk.
const noCache = "none"

// exchange is a member's part in the giving and taking of chunks.
type exchange struct {
	known  atomic.Pointer[swarm.Node] // who else there is; nil before this peer is admitted
	server *dataserve.Server          // nil if there are no files
}

// fetcher has chunks fetched from the peer that link names, and later from all members.
func (m *member) fetcher(link peer.Link) fetchData {
	return func(ctx context.Context, id data.Identity) (*dataserve.Fetcher, error) {
		folder, err := cacheFolder(m.cfg.Cache, m.cfg.Log)
		if err != nil {
			return nil, err
		}
		return dataserve.Open(ctx, dataserve.Config{Transport: m.host, Run: link.Run, Secret: link.Secret, Folder: folder, Log: m.cfg.Log,
			Peers: func() []dataserve.Peer {
				list := []dataserve.Peer{{ID: link.Peer, Addrs: link.Addrs}}
				if node := m.chunks.known.Load(); node != nil {
					for _, p := range node.Members() {
						if p.Peer != m.host.Self() && p.Peer != link.Peer {
							list = append(list, dataserve.Peer{ID: p.Peer, Addrs: p.Addrs})
						}
					}
				}
				return list
			}}, id)
	}
}

// cacheFolder is where chunks are kept on disk, "" if nowhere. A folder that was named must be there or be made; a system
// without a place for caches is no reason to stop.
func cacheFolder(setting string, log *slog.Logger) (string, error) {
	switch setting {
	case noCache:
		return "", nil
	case "":
	default:
		if err := os.MkdirAll(setting, 0o700); err != nil {
			return "", fmt.Errorf("cache: %w", err)
		}
		return setting, nil
	}
	base, err := os.UserCacheDir()
	folder := filepath.Join(base, "shoal", "chunks")
	if err == nil {
		err = os.MkdirAll(folder, 0o700)
	}
	if err != nil {
		log.Warn("chunks of the data are kept in memory alone", "err", err)
		return "", nil
	}
	return folder, nil
}

// attemptChunks are a Fetcher's, but nobody waits for one longer than the attempt goes on in which it is wanted: the log may
// have others go on without it.
type attemptChunks struct {
	*dataserve.Fetcher
	until atomic.Pointer[context.Context] // ends with the attempt; nil before the first
}

func (a *attemptChunks) Chunk(ctx context.Context, i int) ([]byte, error) {
	if until := a.until.Load(); until != nil {
		var cancel context.CancelCauseFunc
		ctx, cancel = context.WithCancelCause(ctx)
		defer cancel(nil)
		defer context.AfterFunc(*until, func() { cancel(context.Cause(*until)) })()
	}
	return a.Fetcher.Chunk(ctx, i)
}

// attempted says that what is read from now on is for an attempt that ends with ctx.
func (t *task) attempted(ctx context.Context) {
	if t.fetched != nil {
		t.fetched.until.Store(&ctx)
	}
}

// lacks tells the user that this peer waits for data that nobody has who is left, and that it goes on.
func (m *member) lacks(why error) {
	if why == nil {
		m.live.lacking("")
		m.notice("the data are there, the run goes on")
		return
	}
	m.cfg.Log.Warn("nobody gives what is needed next", "err", why)
	text := fmt.Sprintf("waiting for somebody who has the run's data: a peer that joins with the files, shoal join LINK --data %s:PATH, lets it go on",
		m.task.run.Data.Source)
	m.live.lacking(text)
	m.notice("%s", text)
}

// fetchFiles has others give the run's files.
func (t *task) fetchFiles(ctx context.Context, fetch openFetcher) error {
	f, err := fetch(ctx)
	if err != nil {
		return err
	}
	t.chunks, t.manifest, t.fetched = f, f.Manifest(), &attemptChunks{Fetcher: f}
	f.Follow(func(yield func(int) bool) { // the heads of the files are read first
		for i := range t.manifest.Leaves {
			if _, offset, _ := t.manifest.Place(i); offset == 0 && !yield(i) {
				return
			}
		}
	})
	return nil
}

// giveChunks begins to give others the chunks that are here, if the run learns from files.
func (m *member) giveChunks(link peer.Link) {
	if m.task.chunks == nil {
		return
	}
	store := dataserve.Whole(m.task.chunks)
	if f, ok := m.task.chunks.(*dataserve.Fetcher); ok {
		store = f.Held()
		f.Follow(m.task.ahead(0, 0, make([]int64, 1))) // this peer's share is not known yet
	}
	m.chunks.server = dataserve.Serve(dataserve.ServerConfig{Transport: m.host, Run: link.Run, Secret: link.Secret,
		Manifest: m.task.manifest, Store: store, Log: m.cfg.Log})
}

// hasFiles says whether all of the run's files are on this machine.
func (m *member) hasFiles() bool { return m.task.chunks != nil && m.task.fetched == nil }

// fetchAhead has the chunks fetched that this member will need from a step on.
func (m *member) fetchAhead(step int) {
	if f, ok := m.task.chunks.(*dataserve.Fetcher); ok {
		v := m.view.Load()
		f.Follow(m.task.ahead(step, max(0, v.Rank), make([]int64, len(v.Members))))
	}
}

// fetchWhile ends all fetching when the run has ended, so that nobody waits for chunks of a run that is over. stop undoes it.
func (m *member) fetchWhile(ctx context.Context) (stop func() bool) {
	return context.AfterFunc(ctx, func() {
		var stopped *swarm.StoppedError
		if errors.As(context.Cause(ctx), &stopped) && stopped.Gone { // it joins again, and needs them then
			return
		}
		if f, ok := m.task.chunks.(*dataserve.Fetcher); ok {
			f.Stop(context.Cause(ctx))
		}
	})
}

// ahead yields the chunks that the member of a rank is likely to need from a step on, in that order, and the held-out ones
// at the end. work is what a microbatch costs each member, see fsdp.Deal.
func (t *task) ahead(step, rank int, work []int64) iter.Seq[int] {
	return func(yield func(int) bool) {
		samples := func(set Dataset, list []int) bool {
			s, ok := set.(data.Samples)
			if !ok {
				return true
			}
			for _, i := range list {
				for _, chunk := range s.Chunks(i) {
					if !yield(chunk) {
						return false
					}
				}
			}
			return true
		}
		micro := t.run.Train.Microbatch
		for ; step < t.run.Train.Steps; step++ {
			order := t.order(step)
			share := fsdp.Deal(step, (len(order)+micro-1)/micro, work)[rank]
			if !samples(t.data, order[min(len(order), share.First*micro):min(len(order), share.Last*micro)]) {
				return
			}
		}
		if t.eval == nil {
			return
		}
		for i := range t.eval.Len() {
			if !samples(t.eval, []int{i}) {
				return
			}
		}
	}
}

// chunkBytes counts what went over the streams of chunks.
func (m *member) chunkBytes() (sent, received int64) {
	if f, ok := m.task.chunks.(*dataserve.Fetcher); ok {
		s := f.Stats()
		sent, received = s.Sent, s.Received
	}
	if m.chunks.server != nil {
		s := m.chunks.server.Stats()
		sent, received = sent+s.Sent, received+s.Received
	}
	return sent, received
}
