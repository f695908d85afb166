//go:build !js

package peer

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
)

func TestIdentityKeeps(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "b", "identity")
	h := newTestHost(t, Config{Identity: path})
	first := h.Self()
	if runtime.GOOS != "windows" {
		for p, want := range map[string]os.FileMode{path: 0o600, filepath.Dir(path): 0o700} {
			if info, err := os.Stat(p); err != nil || info.Mode().Perm() != want {
				t.Errorf("%s: %v, %v, want mode %04o", p, info, err, want)
			}
		}
	}
	if names, _ := os.ReadDir(filepath.Dir(path)); len(names) != 1 {
		t.Errorf("left behind: %v", names)
	}
	_, err := New(testContext(t), Config{Identity: path, Listen: []string{"127.0.0.1:0"}})
	refuse(t, err, ErrIdentityInUse, path)
	h.Close()
	if again := newTestHost(t, Config{Identity: path}).Self(); again != first {
		t.Errorf("identity is %s, was %s", again, first)
	}
	if other := newTestHost(t, Config{}).Self(); other == first {
		t.Error("ephemeral identity isn't new")
	}
}

func TestIdentityRefused(t *testing.T) {
	good, _, err := newKey()
	if err != nil {
		t.Fatal(err)
	}
	flipped := strings.Replace(string(good), "PRIVATE KEY-----\n", "PRIVATE KEY-----\n", 1)
	lines := strings.Split(flipped, "\n")
	body := []byte(lines[3]) // BEGIN, Peer-Id, "", base64
	if body[40] == 'A' {
		body[40] = 'B'
	} else {
		body[40] = 'A'
	}
	lines[3] = string(body)
	flipped = strings.Join(lines, "\n")

	for name, content := range map[string]string{
		"empty": "", "cut": string(good[:len(good)/2]), "garbage": strings.Repeat("x", 100), "flipped": flipped,
		"huge": string(good) + strings.Repeat("\n", maxIdentityFile),
	} {
		path := filepath.Join(t.TempDir(), "identity")
		os.WriteFile(path, []byte(content), 0o600)
		_, err := New(testContext(t), Config{Identity: path})
		refuse(t, err, nil, path, "corrupt")
		if name == "flipped" && content == string(good) {
			t.Error("test changes nothing")
		}
		if after, _ := os.ReadFile(path); string(after) != content {
			t.Errorf("%s: file was changed", name)
		}
	}

	dir := t.TempDir()
	_, err = New(testContext(t), Config{Identity: dir})
	refuse(t, err, nil, dir, "not a regular file")
	if runtime.GOOS == "windows" {
		return
	}
	path := filepath.Join(dir, "identity")
	os.WriteFile(path, good, 0o600)
	os.Chmod(path, 0o640)
	_, err = New(testContext(t), Config{Identity: path})
	refuse(t, err, nil, path, "others may read")
}

// A host that fails to start lets go of its identity.
func TestIdentityReleased(t *testing.T) {
	path := filepath.Join(t.TempDir(), "identity")
	a := newTestHost(t, Config{})
	_, err := New(testContext(t), Config{Identity: path, Listen: a.Addrs()})
	refuse(t, err, ErrPortInUse)
	newTestHost(t, Config{Identity: path})
}

// Of many that make the same file at once one gets it, and the file is its key.
func TestIdentityRace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "identity")
	var mu sync.Mutex
	var held []*identity
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			id, err := openIdentity(path)
			if err != nil {
				refuse(t, err, ErrIdentityInUse)
				return
			}
			mu.Lock()
			held = append(held, id)
			mu.Unlock()
		})
	}
	wg.Wait()
	if len(held) != 1 {
		t.Fatalf("%d hold it", len(held))
	}
	text, _ := os.ReadFile(path)
	key, err := decodeKey(text)
	if err != nil || !key.Equals(held[0].key) {
		t.Errorf("file has another key, %v", err)
	}
	held[0].release()
}
