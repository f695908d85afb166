package dataserve

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"shoal/internal/data"
)

const (
	scanEvery = 64        // chunks that are written before the folder is looked through again: others write to it too
	staleFile = time.Hour // age of a file that was never finished
	unmade    = ".part"   // end of the names of files that are not finished
)

// disk keeps chunks in a folder, each in a file named by its hash, so that runs and processes share them. The file's time
// is that of its last use; when the folder grows beyond its limit, those go first that were not used for longest.
type disk struct {
	folder string
	limit  int64 // bytes
	log    *slog.Logger

	mu      sync.Mutex
	known   map[data.Hash]bool // files there at the last scan, and those written since
	size    int64              // bytes of them
	written int                // since the last scan
	broken  bool               // it can't be written to: that was logged
}

// openDisk opens a folder, and makes it if it is missing.
func openDisk(folder string, limit int64, log *slog.Logger) (*disk, error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, fmt.Errorf("cache: %w", err)
	}
	d := &disk{folder: folder, limit: limit, log: log}
	if err := d.scan(); err != nil {
		return nil, fmt.Errorf("cache: %w", err)
	}
	return d, nil
}

func (d *disk) path(h data.Hash) string { return filepath.Join(d.folder, h.String()) }

// has says whether there seems to be a chunk with that hash.
func (d *disk) has(h data.Hash) bool {
	if d == nil {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.known[h]
}

// get reads the chunk with that hash, of n bytes; nil if it isn't there or was damaged.
func (d *disk) get(h data.Hash, n int, right func([]byte) bool) []byte {
	if !d.has(h) {
		return nil
	}
	b, err := readFile(d.path(h), n)
	if err == nil && right(b) {
		now := time.Now()
		os.Chtimes(d.path(h), now, now) // if that fails, it goes earlier than it should
		return b
	}
	if !errors.Is(err, fs.ErrNotExist) {
		d.log.Warn("a chunk in the cache is damaged, it is removed", "file", d.path(h), "err", err)
		os.Remove(d.path(h))
	}
	d.mu.Lock()
	delete(d.known, h)
	d.mu.Unlock()
	return nil
}

// readFile reads a file that should have n bytes.
func readFile(path string, n int) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b := make([]byte, n)
	_, err = io.ReadFull(f, b)
	return b, err
}

// put writes a chunk. A folder that can't be written to is no reason to stop: it is logged once.
func (d *disk) put(h data.Hash, b []byte) {
	if d == nil || d.has(h) {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.broken || int64(len(b)) > d.limit {
		return
	}
	err := d.write(h, b)
	if err == nil {
		d.known[h] = true
		d.size += int64(len(b))
		if d.written++; d.written >= scanEvery || d.size > d.limit {
			err = d.scan()
		}
	}
	if err != nil {
		d.broken = true
		d.log.Warn("the cache can't be written to, chunks stay in memory alone", "folder", d.folder, "err", err)
	}
}

// write makes the file whole or not at all.
func (d *disk) write(h data.Hash, b []byte) error {
	f, err := os.CreateTemp(d.folder, h.String()[:8]+"-*"+unmade)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), d.path(h))
	}
	if err != nil {
		os.Remove(f.Name())
		if _, there := os.Stat(d.path(h)); there == nil {
			return nil // another process was faster
		}
	}
	return err
}

// scan looks through the folder and removes what is too much. Other files in it are left alone.
func (d *disk) scan() error {
	entries, err := os.ReadDir(d.folder)
	if err != nil {
		return err
	}
	type file struct {
		hash data.Hash
		fs.FileInfo
	}
	var files []file
	d.known, d.size, d.written = map[data.Hash]bool{}, 0, 0
	for _, e := range entries {
		st, err := e.Info()
		if err != nil || !st.Mode().IsRegular() {
			continue // gone meanwhile, or not ours
		}
		var h data.Hash
		if h.UnmarshalText([]byte(st.Name())) == nil {
			files = append(files, file{h, st})
			d.known[h] = true
			d.size += st.Size()
		} else if strings.HasSuffix(st.Name(), unmade) && time.Since(st.ModTime()) > staleFile {
			os.Remove(filepath.Join(d.folder, st.Name()))
		}
	}
	if d.size <= d.limit {
		return nil
	}
	slices.SortFunc(files, func(a, b file) int { return a.ModTime().Compare(b.ModTime()) })
	for _, st := range files {
		if d.size <= d.limit-d.limit/8 { // so that it isn't looked through again for each chunk
			break
		}
		if err := os.Remove(filepath.Join(d.folder, st.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			continue // another process is reading it
		}
		delete(d.known, st.hash)
		d.size -= st.Size()
	}
	return nil
}
