package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"shoal/swarm"
)

// world are the processes of one side, by rank.
type world []*process

func (w world) close() error {
	var errs []error
	for _, p := range w {
		errs = append(errs, p.close())
	}
	return errors.Join(errs...)
}

// turn has all ranks do the collective, and says how many seconds pass until the last one is done.
func (w world) turn(what any) (float64, error) {
	start := time.Now()
	for _, p := range w {
		if err := p.tell(what); err != nil {
			return 0, err
		}
	}
	for _, p := range w {
		var done struct{}
		if err := p.hear(&done); err != nil {
			return 0, err
		}
	}
	return time.Since(start).Seconds(), nil
}

// startMembers starts ranks that reduce-scatter and all-gather so many elements over libp2p, and checks their sums once.
func startMembers(ctx context.Context, ranks, elements int) (w world, err error) {
	defer func() {
		if err != nil {
			w.close()
		}
	}()
	members := make([]swarm.Contact, ranks)
	for r := range members {
		p, err := startSelf(ctx, roleMember, strconv.Itoa(r), strconv.Itoa(elements))
		if err != nil {
			return w, err
		}
		w = append(w, p)
		if err := p.hear(&members[r]); err != nil {
			return w, err
		}
	}
	if _, err := w.turn(members); err != nil { // connects them
		return w, err
	}
	_, err = w.turn(memberRound{Check: true})
	return w, err
}

// startGloo starts ranks of gloo_side.py, and says which PyTorch they have.
func startGloo(ctx context.Context, python string, ranks, elements int) (w world, version string, err error) {
	defer func() {
		if err != nil {
			w.close()
		}
	}()
	folder, err := os.MkdirTemp("", "shoal-gloo-")
	if err != nil {
		return nil, "", err
	}
	defer os.RemoveAll(folder) // they need it only to find one another
	env := slices.DeleteFunc(os.Environ(), func(s string) bool {
		return strings.HasPrefix(s, "OPENBLAS_CORETYPE=") || strings.HasPrefix(s, "OPENBLAS_L2_SIZE=")
	})
	env = append(env, "PYTHONDONTWRITEBYTECODE=1", "GLOO_SOCKET_IFNAME=lo")
	for r := range ranks {
		p, err := start(ctx, env, python, "scripts/benchwire/gloo_side.py", strconv.Itoa(r), strconv.Itoa(ranks),
			filepath.Join(folder, "store"), strconv.Itoa(elements))
		if err != nil {
			return w, "", err
		}
		w = append(w, p)
	}
	for _, p := range w {
		var about struct{ Torch string }
		if err := p.hear(&about); err != nil {
			return w, "", fmt.Errorf("%w; `make bench-wire` installs what it needs", err)
		}
		version = about.Torch
	}
	return w, version, nil
}
