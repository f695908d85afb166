package checkpoint

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"shoal/fsdp"
	"shoal/internal/data"
)

const (
	version      = 1
	maxManifest  = 64 << 20 // bytes
	maxFiles     = 1 << 20
	maxExponents = 1 << 20
	maxStep      = 1_000_000_000
)

// Run says whose checkpoints they are.
type Run struct {
	Task    string `json:"task"`     // fingerprint of what is trained: only the same task goes on from them
	RunFile string `json:"run_file"` // without data.path
	ID      string `json:"run_id"`   // of the start that wrote them

	Data *data.Identity `json:"data,omitempty"` // the files that it learns from
}

// Manifest is what makes a checkpoint whole.
type Manifest struct {
	Version int `json:"version"`
	Run
	fsdp.Position
	Files []File `json:"files"`
}

// File is a file of a checkpoint.
type File struct {
	Name   string `json:"name"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"` // hex
}

// sealed is a manifest's file. A manifest has the hashes of all others, and its own beside it.
type sealed struct {
	SHA256   string          `json:"sha256"` // of the bytes of manifest
	Manifest json.RawMessage `json:"manifest"`
}

func newManifest(run Run, s *fsdp.Saved) *Manifest {
	m := &Manifest{Version: version, Run: run, Position: s.Position}
	for _, f := range s.Files {
		m.Files = append(m.Files, File{f.Name, f.Bytes, hex.EncodeToString(f.SHA256[:])})
	}
	return m
}

// encode is the manifest's file, and its hash. Equal manifests give equal bytes.
func (m *Manifest) encode() (file []byte, hash string, err error) {
	if err := m.check(); err != nil {
		return nil, "", err
	}
	text, err := json.Marshal(m)
	if err != nil {
		return nil, "", fmt.Errorf("manifest: %w", err)
	}
	hash = hashOf(text)
	file = fmt.Appendf(nil, "{\"sha256\":\"%s\",\"manifest\":%s}\n", hash, text)
	if len(file) > maxManifest {
		return nil, "", fmt.Errorf("manifest of %d bytes, at most %d", len(file), maxManifest)
	}
	return file, hash, nil
}

func hashOf(b []byte) string {
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:])
}

// Decode reads a manifest's file and returns its hash too.
func Decode(file []byte) (m *Manifest, hash string, err error) {
	if len(file) > maxManifest {
		return nil, "", fmt.Errorf("manifest of %d bytes, at most %d", len(file), maxManifest)
	}
	var s sealed
	if err := strict(file, &s); err != nil {
		return nil, "", err
	}
	if got := hashOf(s.Manifest); got != s.SHA256 {
		return nil, "", fmt.Errorf("manifest is damaged: its SHA-256 is %.12s, it says %.12q", got, s.SHA256)
	}
	m = &Manifest{}
	if err := strict(s.Manifest, m); err != nil {
		return nil, "", err
	}
	return m, s.SHA256, m.check()
}

// strict decodes all of text, without keys that it doesn't know.
func strict(text []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return fmt.Errorf("manifest is damaged: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("manifest is damaged: it goes on behind its end")
	}
	return nil
}

// fileName is the only form of a file's name that is taken from others or from a disk: behind a dot is what tells the files
// of several members apart.
var fileName = regexp.MustCompile(`^(unit-[0-9]{4,9}\.rank-[0-9]{2,9}|history)(\.[0-9a-z]{1,32})?\.safetensors$`)

// isHistory says whether a file has the losses so far.
func isHistory(name string) bool { return strings.HasPrefix(name, historyName+".") }

var hexHash = regexp.MustCompile(`^[0-9a-f]{64}$`)

func (m *Manifest) check() error {
	switch {
	case m.Version != version:
		return fmt.Errorf("manifest of version %d, this program reads %d", m.Version, version)
	case m.Step < 1 || m.Step > maxStep || m.Updates < 0 || m.Updates > m.Step || m.Bad < 0 || m.Bad > m.Step:
		return fmt.Errorf("manifest with step %d, %d updates, %d bad steps", m.Step, m.Updates, m.Bad)
	case len(m.Exponents) > maxExponents || len(m.Files) > maxFiles:
		return fmt.Errorf("manifest with %d exponents and %d files is too long", len(m.Exponents), len(m.Files))
	case !hexHash.MatchString(m.StateHash):
		return fmt.Errorf("manifest with the state hash %.80q", m.StateHash)
	}
	seen, histories := map[string]bool{}, 0
	for _, f := range m.Files {
		switch {
		case !fileName.MatchString(f.Name):
			return fmt.Errorf("manifest with a file named %.80q", f.Name)
		case seen[f.Name]:
			return fmt.Errorf("manifest with two files named %s", f.Name)
		case f.Bytes < 0 || !hexHash.MatchString(f.SHA256):
			return fmt.Errorf("manifest with %d bytes and hash %.80q of file %s", f.Bytes, f.SHA256, f.Name)
		}
		seen[f.Name] = true
		if isHistory(f.Name) {
			histories++
		}
	}
	if histories != 1 {
		return fmt.Errorf("manifest with %d files of the losses so far, want one", histories)
	}
	return nil
}

// history is the name of the file with the losses so far.
func (m *Manifest) history() string {
	return m.Files[slices.IndexFunc(m.Files, func(f File) bool { return isHistory(f.Name) })].Name
}
