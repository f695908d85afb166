package shoal

import (
	"errors"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// smallDisk is a folder that is a disk of its own, of the given size.
func smallDisk(t *testing.T, size string) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("shoal", dir, "tmpfs", 0, "size="+size); err != nil {
		t.Skipf("needs root to mount a small disk: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// That the disk has too little room for the model is noticed before training.
func TestNoRoomForModel(t *testing.T) {
	dir := smallDisk(t, "64k")
	_, err := Run(t.Context(), Config{RunFile: small(), Out: filepath.Join(dir, "model"), Listen: []string{"/ip4/127.0.0.1/tcp/0"},
		Progress: func(Progress) { t.Error("it trains") }})
	var wrong *ConfigError
	if !errors.As(err, &wrong) || wrong.Field != "out" || !strings.Contains(err.Error(), "left") {
		t.Errorf("run ended with %v", err)
	}
}
