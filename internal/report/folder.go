package report

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// MakeFolder makes the folder dir, if need be, and writes and removes a file in it: what can't be written is noticed before
// hours of training. undo removes the folders that it made, those that are empty.
func MakeFolder(dir string) (undo func(), err error) {
	var made []string // the deepest one first
	for at := filepath.Clean(dir); ; at = filepath.Dir(at) {
		if _, err := os.Lstat(at); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		made = append(made, at)
	}
	undo = func() {
		for _, d := range made {
			os.Remove(d)
		}
	}
	if err := makeFolder(dir); err != nil {
		undo()
		return nil, err
	}
	return undo, nil
}

func makeFolder(dir string) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return fmt.Errorf("cannot make the folder: %w", err)
	}
	f, err := os.CreateTemp(dir, ".shoal-probe-*")
	if err != nil {
		return fmt.Errorf("cannot write into the folder: %w", err)
	}
	_, err = f.WriteString("probe")
	if closed := f.Close(); err == nil {
		err = closed
	}
	if removed := os.Remove(f.Name()); err == nil {
		err = removed
	}
	if err != nil {
		return fmt.Errorf("cannot write into the folder: %w", err)
	}
	return nil
}
