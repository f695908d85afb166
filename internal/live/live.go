// Package live lets other processes of the same user ask a process about the run that it is in, and have it recover: HTTP on
// a port of the loopback interface, which a file with mode 0600 in the user's cache folder names, with a secret that each
// question must have.
//
//	s, err := live.Serve(source)    // in the process that trains
//	defer s.Close()
//	list, err := live.List()        // in another one: who is there
//	st, err := list[0].Status(ctx)
package live

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"shoal/internal/status"
)

// Source is a run while it lasts.
type Source interface {
	Status() status.Status
	Recover(ctx context.Context) error
}

// Dir is the folder with a file per process. It may not exist.
func Dir() (string, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no cache folder: %w", err)
	}
	return filepath.Join(base, folders[0], folders[1]), nil
}

// folders are below the user's cache folder.
var folders = [2]string{"shoal", "running"}

// put writes p's file into the folder, which is for this user alone. Another process may just be removing the folder.
func put(p *Process) (file string, err error) {
	dir, err := Dir()
	if err != nil {
		return "", err
	}
	file = filepath.Join(dir, fileName(p.PID))
	for range putTries {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return "", fmt.Errorf("no cache folder: %w", err)
		}
		if err = p.write(file); !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	return file, err
}

const putTries = 3

// take removes the file and the folders that are empty then: a run leaves nothing behind.
func take(file string) error {
	err := remove(file)
	for dir := filepath.Dir(file); os.Remove(dir) == nil; dir = filepath.Dir(dir) {
		if filepath.Base(dir) != folders[0] && filepath.Base(dir) != folders[1] {
			break // the user's cache folder itself
		}
	}
	return err
}

// remove is os.Remove of a file that may have gone.
func remove(file string) error {
	if err := os.Remove(file); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
