package safetensors

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A disk with room for 64 KiB, and a file of 1 MiB.
func TestDiskFull(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("shoal", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("needs root to mount a small disk: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	path := filepath.Join(dir, "model.safetensors")
	w, err := Create(path, []Tensor{{"a", U8, []int{1 << 20}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var full error
	for at := 0; at < 1<<20 && full == nil; at += 1 << 14 {
		full = w.WriteAt("a", at, make([]byte, 1<<14))
	}
	for _, err := range []error{full, w.Close()} {
		if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), path) {
			t.Errorf("%v, want that the disk is full, and the file", err)
		}
	}
	folderHas(t, dir)
	if _, err := os.Stat(path); err == nil {
		t.Error("there is a file")
	}
}
