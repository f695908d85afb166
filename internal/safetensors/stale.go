package safetensors

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
)

const partMark = ".part" // then partRandom letters: a file that is not whole
const partRandom = 26

func there(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// RemoveStale removes what writers of the file at path left behind that were killed. What a living process still writes
// stays: it holds a lock (on Windows, the file itself). Where that can't be told, all stays.
func RemoveStale(path string) error {
	names, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range names {
		random, ok := strings.CutPrefix(e.Name(), filepath.Base(path)+partMark)
		if !ok || len(random) != partRandom || strings.Trim(random, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") != "" || !e.Type().IsRegular() {
			continue
		}
		errs = append(errs, removeIfFree(filepath.Join(filepath.Dir(path), e.Name())))
	}
	return errors.Join(errs...)
}
