package checkpoint

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"shoal/fsdp"
	"shoal/internal/safetensors"
	"shoal/kernel"
)

// Checkpoint is a whole checkpoint. It belongs to one goroutine.
type Checkpoint struct {
	Entry
	pieces  map[string][]piece // by prefixed name of the tensor, ascending
	checked map[string]bool    // files whose hash was found right
	name    string             // of the file that is open
	file    *safetensors.File
}

// piece is a part of a tensor in a file.
type piece struct {
	first, n int
	file     string
	name     string // there, prefixed
}

// Open opens a checkpoint that List has found, once all its files are there. Their contents are looked at when they are
// read, or by Verify.
func Open(e Entry) (*Checkpoint, error) {
	if e.Err != nil {
		return nil, e.Err
	}
	if err := e.present(); err != nil {
		return nil, err
	}
	c := &Checkpoint{Entry: e, pieces: map[string][]piece{}, checked: map[string]bool{}}
	for _, f := range e.Manifest.Files {
		if err := c.index(f.Name); err != nil {
			c.Close()
			return nil, err
		}
	}
	for name := range c.pieces {
		slices.SortFunc(c.pieces[name], func(a, b piece) int { return a.first - b.first })
	}
	return c, nil
}

// Newest is the hash of the newest checkpoint in dir that fits and whose files are all there, or "". What is in them is not
// looked at.
func Newest(dir string, fits func(e Entry) bool) string {
	entries, err := List(dir)
	if err != nil {
		return ""
	}
	for _, e := range slices.Backward(entries) {
		if e.Err != nil || !fits(e) {
			continue
		}
		if c, err := Open(e); err == nil {
			c.Close()
			return e.Hash
		}
	}
	return ""
}

// present says which files are missing or cut short.
func (e *Entry) present() error {
	var missing []string
	for _, f := range e.Manifest.Files {
		info, err := os.Stat(filepath.Join(e.Path, f.Name))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			missing = append(missing, f.Name)
		case err != nil:
			return err
		case info.Size() != f.Bytes:
			return fmt.Errorf("%s has %d bytes, want %d: it was cut short or changed", filepath.Join(e.Path, f.Name), info.Size(), f.Bytes)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	more := ""
	if len(missing) > 3 {
		more = fmt.Sprintf(" and %d more", len(missing)-3)
	}
	return fmt.Errorf("%s has not %s%s, which other peers may have: copy the files of all peers into one folder",
		e.Path, strings.Join(missing[:min(3, len(missing))], ", "), more)
}

func (c *Checkpoint) open(name string) error {
	if c.name == name && c.file != nil {
		return nil
	}
	c.Close()
	f, err := safetensors.Open(filepath.Join(c.Path, name))
	c.name, c.file = name, f
	return err
}

// Close closes what is open.
func (c *Checkpoint) Close() {
	if c.file != nil {
		c.file.Close()
		c.file = nil
	}
}

// index finds the pieces in a file.
func (c *Checkpoint) index(file string) error {
	if isHistory(file) {
		return nil
	}
	if err := c.open(file); err != nil {
		return fmt.Errorf("a file is damaged: %w", err)
	}
	metadata := c.file.Metadata()
	for _, t := range c.file.Tensors() {
		state, name, _ := strings.Cut(t.Name, ":")
		at, err := strconv.Atoi(metadata[firstKey+name])
		if err != nil || at < 0 || t.DType != safetensors.F32 {
			return fmt.Errorf("%s is damaged: tensor %.80q has no place", filepath.Join(c.Path, file), t.Name)
		}
		if of, ok := metadata[ofKey+name]; ok {
			name = of
		}
		key := state + ":" + name
		c.pieces[key] = append(c.pieces[key], piece{at, t.Elements(), file, t.Name})
	}
	return nil
}

// Verify compares the hash of every file. It returns when ctx ends.
func (c *Checkpoint) Verify(ctx context.Context) error {
	for _, f := range c.Manifest.Files {
		if err := c.verify(ctx, f); err != nil {
			return err
		}
	}
	return nil
}

func (c *Checkpoint) verify(ctx context.Context, f File) error {
	got, err := hashFile(ctx, filepath.Join(c.Path, f.Name))
	if err != nil {
		return err
	}
	if hash := hex.EncodeToString(got.SHA256[:]); hash != f.SHA256 {
		return fmt.Errorf("%s is damaged: its SHA-256 is %.12s, want %.12s", filepath.Join(c.Path, f.Name), hash, f.SHA256)
	}
	c.checked[f.Name] = true
	return nil
}

// trust opens a file whose hash is right.
func (c *Checkpoint) trust(name string) error {
	if !c.checked[name] {
		i := slices.IndexFunc(c.Manifest.Files, func(f File) bool { return f.Name == name })
		if err := c.verify(context.Background(), c.Manifest.Files[i]); err != nil {
			return err
		}
	}
	return c.open(name)
}

// Read fills dst with a tensor's numbers from element first on, whoever owned them.
func (c *Checkpoint) Read(s fsdp.State, name string, first int, dst []float32) error {
	key := prefix[s] + name
	for len(dst) > 0 {
		i := slices.IndexFunc(c.pieces[key], func(p piece) bool { return p.first <= first && first < p.first+p.n })
		if i < 0 {
			return fmt.Errorf("%s has no element %d of %s", c.Path, first, key)
		}
		p := c.pieces[key][i]
		n := min(len(dst), p.first+p.n-first)
		if err := c.trust(p.file); err != nil {
			return err
		}
		if err := c.file.ReadAt(p.name, first-p.first, kernel.Bytes(dst[:n])); err != nil {
			return err
		}
		first, dst = first+n, dst[n:]
	}
	return nil
}

// History is the loss of every step so far, and the state hashes that were recorded, by step.
func (c *Checkpoint) History() (losses []float64, hashes []fsdp.StepHash, err error) {
	name := c.Manifest.history()
	if err := c.trust(name); err != nil {
		return nil, nil, err
	}
	t, ok := c.file.Tensor(lossName)
	if !ok || t.DType != safetensors.F64 || t.Elements() != c.Manifest.Step {
		return nil, nil, fmt.Errorf("%s is damaged: it has not the losses of %d steps", filepath.Join(c.Path, name), c.Manifest.Step)
	}
	b := make([]byte, t.Bytes())
	if err := c.file.ReadAt(lossName, 0, b); err != nil {
		return nil, nil, err
	}
	for ; len(b) > 0; b = b[8:] {
		losses = append(losses, math.Float64frombits(binary.LittleEndian.Uint64(b)))
	}
	for key, h := range c.file.Metadata() {
		if text, ok := strings.CutPrefix(key, hashKey); ok {
			step, err := strconv.Atoi(text)
			if err != nil {
				return nil, nil, fmt.Errorf("%s is damaged: %.80q is no step", filepath.Join(c.Path, name), key)
			}
			var hash fsdp.Hash
			if err := hash.UnmarshalText([]byte(h)); err != nil {
				return nil, nil, fmt.Errorf("%s is damaged: %w", filepath.Join(c.Path, name), err)
			}
			hashes = append(hashes, fsdp.StepHash{Step: step, Hash: hash})
		}
	}
	slices.SortFunc(hashes, func(a, b fsdp.StepHash) int { return cmp.Compare(a.Step, b.Step) })
	return losses, hashes, nil
}
