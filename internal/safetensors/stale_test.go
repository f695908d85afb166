//go:build linux || darwin || freebsd || netbsd || openbsd || windows

package safetensors

import (
	"os"
	"path/filepath"
	"testing"
)

// What a killed process left goes; what a living one writes, and files of others, stay.
func TestRemoveStale(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "m")
	w, err := Create(path, []Tensor{{"a", U8, []int{1}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	left := path + ".partABCDEFGHIJKLMNOPQRSTUVWXYZ"
	others := []string{path, path + ".part", path + ".partial", path + ".partabcdefghijklmnopqrstuvwxyz", filepath.Join(dir, "n.partABCDEFGHIJKLMNOPQRSTUVWXYZ")}
	for _, p := range append(others, left) {
		if err := os.WriteFile(p, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := RemoveStale(path); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(left); err == nil {
		t.Error("what was left behind is still there")
	}
	for _, p := range append(others, w.temp) {
		if _, err := os.Stat(p); err != nil {
			t.Error(err)
		}
	}
}
