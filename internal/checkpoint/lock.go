package checkpoint

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

const lockFile = "lock"

// Lock is a process's hold on a folder, together with all others of its run. It ends with the process, however that ends.
type Lock struct{ f *os.File }

// holder is what the file says about the run whose processes have the folder.
type holder struct {
	ID  string `json:"run_id"`
	PID int    `json:"pid"` // of the first one; it may be gone
}

// InUseError says that living processes of another start of the run, or of another run, have a folder.
type InUseError struct {
	Dir, Run string
	PID      int
}

func (e *InUseError) Error() string {
	who := "another run"
	if e.Run != "" {
		who = fmt.Sprintf("run %.16s (process %d began it)", e.Run, e.PID)
	}
	return fmt.Sprintf("%s is in use by %s, which has not ended: end its processes on this machine, or give another folder", e.Dir, who)
}

const (
	lockTries = 100
	lockPause = 20 * time.Millisecond // others have the exclusive lock while they write a line, or look whether they can
)

var errLocked = errors.New("locked")

// TryLock gets dir for the run with the given id, unless living processes of another one have it. The folder must be there.
// Whoever is alone writes the id; all of one run share the lock.
func TryLock(dir, id string) (*Lock, error) {
	f, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return nil, err
	}
	var in holder
	for range lockTries {
		if err = lock(f, true); err == nil {
			err = writeHolder(f, holder{id, os.Getpid()})
		}
		if err == nil || errors.Is(err, errLocked) {
			err = lock(f, false) // which lets go of the other for a moment: so the line is read again
		}
		if err == nil {
			in, err = readHolder(f)
		}
		if err == nil && in.ID == id {
			return &Lock{f}, nil
		}
		if err == nil {
			err = &InUseError{dir, in.ID, in.PID}
		}
		if !errors.Is(err, errLocked) {
			break
		}
		time.Sleep(lockPause)
	}
	f.Close()
	if errors.Is(err, errLocked) {
		err = &InUseError{Dir: dir}
	}
	return nil, err
}

func writeHolder(f *os.File, h holder) error {
	text, err := json.Marshal(h)
	if err == nil {
		err = f.Truncate(0)
	}
	if err == nil {
		_, err = f.WriteAt(append(text, '\n'), 0)
	}
	return err
}

func readHolder(f *os.File) (h holder, err error) {
	text := make([]byte, 4<<10)
	n, _ := f.ReadAt(text, 0) // it is shorter
	if err := json.Unmarshal(text[:n], &h); err != nil {
		return h, fmt.Errorf("%s can't be read, so it isn't known which run has the folder: %w", f.Name(), err)
	}
	return h, nil
}

// Close lets go of the folder. It may be called on nil.
func (l *Lock) Close() {
	if l != nil {
		l.f.Close()
	}
}
