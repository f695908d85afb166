package report

import (
	"fmt"
	"os"
)

// CheckFolder makes the folder dir, if need be, and writes and removes a file in it: what can't be written is noticed
// before hours of training.
func CheckFolder(dir string) error {
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
