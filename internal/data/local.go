package data

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
)

// ErrChanged is wrapped by the error of reading a file that is no longer what it was when it was opened.
var ErrChanged = errors.New("the file changed since the run began")

// Local is a data set in files on this machine, mapped into memory where the system can. It watches over them: before
// bytes of a chunk are given, the file's size and time are looked at, and if they are not as before, the chunk's hash.
type Local struct {
	manifest Manifest
	files    []*localFile

	mu    sync.Mutex
	right []bool // by chunk: its hash was right, and the file has not been touched since
}

var _ ChunkSource = (*Local)(nil)

// localFile is an open file.
type localFile struct {
	path string
	view view
	f    *os.File  // nil if it was unpacked into memory
	size int64     // bytes, unpacked
	time time.Time // of the last change, guarded by Local.mu
}

// OpenLocal opens the files of a data set of a kind ("mnist", "text" or "tokens") at path, a folder or a file, and reads
// them once to know their hashes. It looks at the files' form no further; Open does that.
func OpenLocal(ctx context.Context, kind, path string) (_ *Local, err error) {
	names := roles(kind)
	if names == nil {
		return nil, fmt.Errorf("data: there is no kind %q of files, there are mnist:DIR, text:FILE, tokens:FILE", kind)
	}
	l := &Local{manifest: Manifest{Identity: Identity{Kind: kind}}}
	defer func() {
		if err != nil {
			l.Close()
		}
	}()
	for _, name := range names {
		at, unpack := path, false
		if kind == "mnist" {
			if at, err = findIdx(path, name); err != nil {
				return nil, err
			}
			unpack = true
		}
		f, err := openFile(at, unpack)
		if err != nil {
			return nil, fmt.Errorf("data: %w", err)
		}
		l.files = append(l.files, f)
		if err := l.add(ctx, name, f); err != nil {
			return nil, fmt.Errorf("data: %s: %w", at, err)
		}
	}
	l.right = make([]bool, len(l.manifest.Leaves))
	return l, nil
}

// add hashes f and makes it the next file of the manifest.
func (l *Local) add(ctx context.Context, name string, f *localFile) error {
	if f.size > MaxFileSize {
		return fmt.Errorf("%d bytes are too many, at most %d are allowed", f.size, int64(MaxFileSize))
	}
	m, n := &l.manifest, chunks(f.size)
	if len(m.Leaves)+n > MaxChunks {
		return fmt.Errorf("the data set has more than %d MiB", MaxChunks)
	}
	first := len(m.Leaves)
	m.Files = append(m.Files, File{Name: name, Size: f.size})
	for i := range n {
		if err := ctx.Err(); err != nil {
			return err
		}
		_, offset, size := m.Place(first + i)
		b, err := f.view.chunk(offset, size)
		if err != nil {
			return err
		}
		var h Hash
		if err := guarded(func() { h = leaf(b) }); err != nil {
			return err
		}
		m.Leaves = append(m.Leaves, h)
	}
	m.Files[len(m.Files)-1].Root = merkleRoot(m.Leaves[first:])
	return nil
}

// Manifest is what the files were when they were opened. It must not be changed.
func (l *Local) Manifest() *Manifest { return &l.manifest }

// Path is where a file of the manifest is.
func (l *Local) Path(file int) string { return l.files[file].path }

// Chunk gives a chunk; see ChunkSource. A file that changed is an ErrChanged that names it.
func (l *Local) Chunk(ctx context.Context, i int) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if i < 0 || i >= len(l.manifest.Leaves) {
		return nil, fmt.Errorf("data: there is no chunk %d of %d", i, len(l.manifest.Leaves))
	}
	file, offset, n := l.manifest.Place(i)
	f := l.files[file]
	right, settled, err := l.look(file, i)
	if err != nil {
		return nil, fmt.Errorf("data: %s: %w", f.path, err)
	}
	b, err := f.view.chunk(offset, n)
	if err != nil {
		return nil, fmt.Errorf("data: %s: bytes from %d on: %w", f.path, offset, err)
	}
	if right {
		return b, nil
	}
	ok := false
	if err := guarded(func() { ok = l.manifest.Verify(i, b) }); err != nil {
		return nil, fmt.Errorf("data: %s: bytes from %d on: %w", f.path, offset, err)
	}
	if !ok {
		return nil, fmt.Errorf("data: %s: bytes %d to %d: %w", f.path, offset, offset+int64(n)-1, ErrChanged)
	}
	if settled {
		l.mu.Lock()
		l.right[i] = true
		l.mu.Unlock()
	}
	return b, nil
}

// timeGrain is the coarsest step of a file system's clock: a file may change twice within it and bear one time.
const timeGrain = 2 * time.Second

// look says whether chunk i was found right and the file was not touched since, and whether the file's time is old enough
// that a later change would show.
func (l *Local) look(file, i int) (right, settled bool, err error) {
	f := l.files[file]
	if f.f == nil {
		return l.known(i), true, nil
	}
	st, err := f.f.Stat()
	if err != nil {
		return false, false, err
	}
	if st.Size() != f.size {
		return false, false, fmt.Errorf("it had %d bytes and has %d: %w", f.size, st.Size(), ErrChanged)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !st.ModTime().Equal(f.time) {
		f.time = st.ModTime()
		f.view.forget()
		first := l.manifest.chunkAt(file, 0)
		clear(l.right[first : first+chunks(f.size)])
	}
	return l.right[i], time.Since(f.time) > timeGrain, nil
}

func (l *Local) known(i int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.right[i]
}

// Close closes the files. No chunk may be in use.
func (l *Local) Close() error {
	var errs []error
	for _, f := range l.files {
		errs = append(errs, f.view.close())
		if f.f != nil {
			errs = append(errs, f.f.Close())
		}
	}
	l.files = nil
	return errors.Join(errs...)
}
