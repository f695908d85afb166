package checkpoint

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"shoal/fsdp"
	"shoal/internal/safetensors"
)

// Saver keeps one member's parts of a run's checkpoints in a folder. It belongs to the engine's goroutine.
type Saver struct {
	Dir    string
	Run    Run
	Keep   int               // how many checkpoints stay
	Notice func(text string) // gets what a person should know: a checkpoint that fails, the first time in a row

	tag     string // in the names of this member's files
	failing bool
}

var _ fsdp.Saver = (*Saver)(nil)

// prefix is that of a tensor's name in a file, by State.
var prefix = [...]string{fsdp.Params: "params:", fsdp.AdamM: "m:", fsdp.AdamV: "v:"}

const (
	firstKey = "first:" // metadata: before a piece's name, the element of its tensor at which it begins
	ofKey    = "of:"    // metadata: before a piece's name, its tensor's, where that is another
	hashKey  = "hash:"  // metadata of the history: before a step, the state hash after it
	lossName = "loss"

	tagLetters = 8 // 40 random bits
)

// Save writes the member's files, one for each unit. In another view the same step is saved again, by other ranks; and a
// member that was taken out while it was saving may go on with that at any time. So no two members ever use one name, and
// what is not in the manifest in the end is removed.
func (s *Saver) Save(p *fsdp.Part) ([]fsdp.SavedFile, error) {
	if s.tag == "" {
		s.tag = strings.ToLower(rand.Text()[:tagLetters])
	}
	dir := stepFolder(s.Dir, p.Step)
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, err
	}
	var files []fsdp.SavedFile
	add := func(name string, write func(path string) error) error {
		path := filepath.Join(dir, name)
		if err := write(path); err != nil {
			return err
		}
		f, err := hashFile(context.Background(), path)
		f.Name = name
		files = append(files, f)
		return err
	}
	for i := range p.Units {
		u := &p.Units[i]
		err := add(fmt.Sprintf("unit-%04d.rank-%02d.%s.safetensors", u.Unit, p.Rank, s.tag), func(path string) error { return writeUnit(path, u) })
		if err != nil {
			return nil, err
		}
	}
	if p.History {
		if err := add("history."+s.tag+".safetensors", func(path string) error { return writeHistory(path, p) }); err != nil {
			return nil, err
		}
	}
	return files, safetensors.SyncFolder(s.Dir)
}

// writeUnit writes what a member owns of a unit, piece by piece. Of one tensor that may be several: the first has the
// tensor's name, the others have a number behind it.
func writeUnit(path string, u *fsdp.UnitPart) error {
	var tensors []safetensors.Tensor
	var names []string // of the pieces
	count, metadata := map[string]int{}, map[string]string{}
	states := func(p fsdp.Piece) []fsdp.State {
		if p.Frozen {
			return []fsdp.State{fsdp.Params}
		}
		return []fsdp.State{fsdp.Params, fsdp.AdamM, fsdp.AdamV}
	}
	for _, p := range u.Pieces {
		name := p.Name
		if count[p.Name]++; count[p.Name] > 1 {
			name = fmt.Sprintf("%s#%d", p.Name, count[p.Name])
			metadata[ofKey+name] = p.Name
		}
		names = append(names, name)
		metadata[firstKey+name] = strconv.Itoa(p.First)
		for _, s := range states(p) {
			tensors = append(tensors, safetensors.Tensor{Name: prefix[s] + name, DType: safetensors.F32, Shape: []int{p.N}})
		}
	}
	w, err := safetensors.Create(path, tensors, metadata)
	if err != nil {
		return err
	}
	defer w.Abort()
	for i, p := range u.Pieces {
		for _, s := range states(p) {
			err := u.Values(i, s, func(at int, data []byte) error { return w.WriteAt(prefix[s]+names[i], at-p.First, data) })
			if err != nil {
				return err
			}
		}
	}
	return w.Close()
}

func writeHistory(path string, p *fsdp.Part) error {
	hashes := map[string]string{}
	for _, h := range p.StepHashes {
		hashes[hashKey+strconv.Itoa(h.Step)] = h.Hash.String()
	}
	w, err := safetensors.Create(path, []safetensors.Tensor{{Name: lossName, DType: safetensors.F64, Shape: []int{len(p.Losses)}}}, hashes)
	if err != nil {
		return err
	}
	defer w.Abort()
	const chunk = 1 << 13
	var b []byte
	for at := 0; at < len(p.Losses); at += chunk {
		b = b[:0]
		for _, x := range p.Losses[at:min(len(p.Losses), at+chunk)] {
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(x))
		}
		if err := w.WriteAt(lossName, at, b); err != nil {
			return err
		}
	}
	return w.Close()
}

// hashFile is the length and hash of a file.
func hashFile(ctx context.Context, path string) (out fsdp.SavedFile, err error) {
	f, err := os.Open(path)
	if err != nil {
		return out, err
	}
	defer f.Close()
	h := sha256.New()
	if out.Bytes, err = io.CopyBuffer(h, untilDone{ctx, f}, make([]byte, 1<<16)); err != nil {
		return out, fmt.Errorf("read %s: %w", path, err)
	}
	h.Sum(out.SHA256[:0])
	return out, nil
}

// untilDone is a reader that ends with a context.
type untilDone struct {
	ctx context.Context
	r   io.Reader
}

func (u untilDone) Read(p []byte) (int, error) {
	if u.ctx.Err() != nil {
		return 0, context.Cause(u.ctx)
	}
	return u.r.Read(p)
}

// Manifest is the hash of s's manifest, for fsdp.Decider.
func (s *Saver) Manifest(saved *fsdp.Saved) (string, error) { return ManifestHash(s.Run, saved) }

// ManifestHash is the hash of the manifest that a checkpoint of run gets.
func ManifestHash(run Run, saved *fsdp.Saved) (string, error) {
	_, hash, err := newManifest(run, saved).encode()
	return hash, err
}

// Finish writes the manifest of a checkpoint whose files are all there, and removes older checkpoints; or it removes what
// there is of one that failed.
func (s *Saver) Finish(saved *fsdp.Saved) {
	step := saved.Position.Step
	if saved.Failed != "" {
		if err := forget(s.Dir, step); err != nil {
			s.tell(step, saved.Failed+"; what is left of it in "+s.Dir+" can't be removed: "+err.Error())
			return
		}
		s.tell(step, saved.Failed)
		return
	}
	if err := s.seal(saved); err != nil {
		s.tell(step, err.Error()) // what is there is partial: it goes with the next one, or at the next start
		return
	}
	s.failing = false
	if err := prune(s.Dir, step, s.Keep); err != nil {
		s.Notice("an old checkpoint was not removed: " + err.Error())
	}
}

func (s *Saver) tell(step int, why string) {
	if !s.failing {
		s.Notice(fmt.Sprintf("the checkpoint of step %d was not saved, training goes on: %s", step, why))
	}
	s.failing = true
}

func (s *Saver) seal(saved *fsdp.Saved) error {
	text, hash, err := newManifest(s.Run, saved).encode()
	if err != nil {
		return err
	}
	if hash != saved.Manifest {
		return fmt.Errorf("its manifest has hash %.12s, the log says %.12s (another version of shoal?)", hash, saved.Manifest)
	}
	return writeFile(filepath.Join(stepFolder(s.Dir, saved.Position.Step), manifestFile), text)
}

// forget removes what there is of a checkpoint, but not one that is whole all the same: members that were cut off may have
// finished it in another view.
func forget(dir string, step int) error {
	path := stepFolder(dir, step)
	if m, _, err := readManifest(path, step); err == nil {
		return tidy(path, m)
	}
	return os.RemoveAll(path)
}
