package checkpoint

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"shoal/internal/safetensors"
)

const (
	manifestFile = "manifest.json"
	historyName  = "history"
	runFile      = "run.json"
	damaged      = ".damaged" // behind the name of a checkpoint that was set aside
)

// ErrPartial is what is wrong with a checkpoint that was never finished.
var ErrPartial = errors.New("it was not finished")

// OtherRunError says that a folder has the checkpoints of another run.
type OtherRunError struct {
	Dir     string
	RunFile string // the other run's, if it is known
}

func (e *OtherRunError) Error() string {
	return fmt.Sprintf("%s has the checkpoints of another run: give a folder of its own", e.Dir)
}

// Claim makes dir the folder of run, or says whose it is. It makes the folder if need be.
func Claim(dir string, run Run) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	path := filepath.Join(dir, runFile)
	text, err := readSmall(path)
	switch {
	case err == nil:
		var owner Run
		if err := json.Unmarshal(text, &owner); err != nil {
			return fmt.Errorf("%s can't be read, so it isn't known whose checkpoints %s has: %w", path, dir, err)
		}
		if owner.Task != run.Task {
			return &OtherRunError{dir, owner.RunFile}
		}
		return nil
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	entries, err := List(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Manifest == nil {
			return fmt.Errorf("%s is there, but not %s: give a folder of its own", e.Path, path)
		}
		if e.Manifest.Task != run.Task {
			return &OtherRunError{dir, e.Manifest.RunFile}
		}
	}
	if text, err = json.Marshal(run); err != nil {
		return err
	}
	return writeFile(path, append(text, '\n'))
}

// Entry is a checkpoint in a folder.
type Entry struct {
	Step     int
	Path     string
	Manifest *Manifest // nil if Err is not
	Hash     string    // the manifest's
	Err      error     // why it can't be used, as far as its manifest tells; ErrPartial if there is none
}

var stepName = regexp.MustCompile(`^step-([0-9]{9,10})$`)

func stepFolder(dir string, step int) string {
	return filepath.Join(dir, fmt.Sprintf("step-%09d", step))
}

// List lists the checkpoints in dir by step. Only their manifests are looked at.
func List(dir string) ([]Entry, error) {
	list, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var entries []Entry
	for _, f := range list {
		m := stepName.FindStringSubmatch(f.Name())
		if m == nil || !f.IsDir() {
			continue
		}
		step, err := strconv.Atoi(m[1])
		if err != nil || step < 1 || step > maxStep {
			continue
		}
		e := Entry{Step: step, Path: filepath.Join(dir, f.Name())}
		e.Manifest, e.Hash, e.Err = readManifest(e.Path, step)
		entries = append(entries, e)
	}
	slices.SortFunc(entries, func(a, b Entry) int { return a.Step - b.Step })
	return entries, nil
}

func readManifest(path string, step int) (*Manifest, string, error) {
	text, err := readSmall(filepath.Join(path, manifestFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, "", ErrPartial
	}
	if err != nil {
		return nil, "", err
	}
	m, hash, err := Decode(text)
	if err == nil && m.Step != step {
		err = fmt.Errorf("manifest is of step %d", m.Step)
	}
	if err != nil {
		return nil, "", err
	}
	return m, hash, nil
}

// readSmall reads a file that is at most as long as a manifest.
func readSmall(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxManifest {
		return nil, fmt.Errorf("%s is no file, or of %d bytes, at most %d", path, info.Size(), maxManifest)
	}
	return os.ReadFile(path)
}

// Sweep removes what is partial or belongs to no checkpoint, and returns the steps of the former. Nobody may be saving.
func Sweep(dir string) (steps []int, err error) {
	entries, err := List(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if errors.Is(e.Err, ErrPartial) {
			if err := os.RemoveAll(e.Path); err != nil {
				return steps, err
			}
			steps = append(steps, e.Step)
		}
		if e.Err == nil {
			if err := tidy(e.Path, e.Manifest); err != nil {
				return steps, err
			}
		}
	}
	return steps, nil
}

// tidy removes from a whole checkpoint's folder the files of members that began to save it and are not in its manifest.
func tidy(path string, m *Manifest) error {
	list, err := os.ReadDir(path)
	if err != nil {
		return err
	}
	keep := map[string]bool{manifestFile: true}
	for _, f := range m.Files {
		keep[f.Name] = true
	}
	var errs []error
	for _, f := range list {
		if name, _, _ := strings.Cut(f.Name(), ".part"); keep[f.Name()] || !fileName.MatchString(name) {
			continue // others may be about to write the same manifest
		}
		if err := os.Remove(filepath.Join(path, f.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// SetAside renames a checkpoint that can't be used, so that it is no longer found. It goes away when the run has gone on
// to its step.
func SetAside(e Entry) error {
	if err := os.RemoveAll(e.Path + damaged); err != nil {
		return err
	}
	return os.Rename(e.Path, e.Path+damaged)
}

// prune leaves the newest keep checkpoints up to step, without what others have left in their folders, and whatever is
// newer. Others may prune the same folder.
func prune(dir string, step, keep int) error {
	entries, err := List(dir)
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range slices.Backward(entries) {
		if e.Step > step {
			continue
		}
		if e.Err == nil && keep > 0 {
			keep--
			errs = append(errs, tidy(e.Path, e.Manifest))
			continue
		}
		if e.Err == nil || errors.Is(e.Err, ErrPartial) {
			errs = append(errs, remove(e.Path))
		}
	}
	return errors.Join(append(errs, pruneDamaged(dir, step))...)
}

// pruneDamaged removes what was set aside, up to step.
func pruneDamaged(dir string, step int) error {
	list, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, f := range list {
		name, aside := strings.CutSuffix(f.Name(), damaged)
		if m := stepName.FindStringSubmatch(name); aside && m != nil {
			if n, _ := strconv.Atoi(m[1]); n <= step {
				err = errors.Join(err, os.RemoveAll(filepath.Join(dir, f.Name())))
			}
		}
	}
	return err
}

// remove removes a checkpoint, its manifest first: what is left of it if that fails is partial.
func remove(path string) error {
	if err := os.Remove(filepath.Join(path, manifestFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.RemoveAll(path)
}

// writeFile makes a file appear whole. One that has these bytes already stays.
func writeFile(path string, text []byte) (err error) {
	if old, err := readSmall(path); err == nil && bytes.Equal(old, text) {
		return nil
	}
	temp := path + ".part" + rand.Text()
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.Remove(temp)
		}
	}()
	_, err = f.Write(text)
	if err == nil {
		err = f.Sync()
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(temp, path)
	}
	if err != nil {
		return err
	}
	return safetensors.SyncFolder(filepath.Dir(path))
}
