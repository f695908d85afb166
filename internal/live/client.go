package live

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"

	"shoal/internal/status"
)

const maxAnswer = 4 << 20 // bytes

// ErrNone is wrapped by Pick when no process fits.
var ErrNone = errors.New("no process of yours on this machine is in a run")

// Pick has the processes that fit: by process id if pid is not 0, and by the first characters of the run's id. At least one
// is returned, or an error.
func Pick(list []Process, pid int, run string) ([]Process, error) {
	if len(list) == 0 {
		return nil, ErrNone
	}
	var fit []Process
	for _, p := range list {
		if (pid == 0 || p.PID == pid) && strings.HasPrefix(p.RunID, strings.ToLower(run)) {
			fit = append(fit, p)
		}
	}
	switch {
	case len(fit) > 0:
		return fit, nil
	case pid != 0 && run == "":
		return nil, fmt.Errorf("%w with id %d, but %s", ErrNone, pid, others(list))
	case pid != 0:
		return nil, fmt.Errorf("%w %.40q with id %d, but %s", ErrNone, run, pid, others(list))
	}
	return nil, fmt.Errorf("%w whose id begins with %.40q, but %s", ErrNone, run, others(list))
}

// others names a few processes, as "4242 (run 5f0c9a9a)".
func others(list []Process) string {
	const most = 4
	var names []string
	for _, p := range list[:min(len(list), most)] {
		names = append(names, fmt.Sprintf("%d (run %.8s)", p.PID, p.RunID))
	}
	if len(list) > most {
		names = append(names, fmt.Sprintf("%d more", len(list)-most))
	}
	return strings.Join(names, ", ")
}

// Status asks the process how its run goes.
func (p *Process) Status(ctx context.Context) (status.Status, error) {
	return p.ask(ctx, http.MethodGet, statusPath)
}

// Recover has the process recover its run, and returns what came of it.
func (p *Process) Recover(ctx context.Context) (status.Status, error) {
	return p.ask(ctx, http.MethodPost, recoverPath)
}

// transport goes to the loopback interface alone, past any proxy that the environment names.
var transport = &http.Transport{Proxy: nil, DisableKeepAlives: true}

// ask is one question. Whoever holds the file chose the address, so it is looked at before the token goes there.
func (p *Process) ask(ctx context.Context, method, path string) (st status.Status, err error) {
	if host, _, err := net.SplitHostPort(p.Address); err != nil || !net.ParseIP(host).IsLoopback() {
		return st, fmt.Errorf("process %d: %.60q is no address of this machine", p.PID, p.Address)
	}
	r, err := http.NewRequestWithContext(ctx, method, "http://"+p.Address+path, nil)
	if err != nil {
		return st, fmt.Errorf("process %d: %w", p.PID, err)
	}
	r.Header.Set("Authorization", "Bearer "+p.Token)
	answer, err := (&http.Client{Transport: transport}).Do(r)
	if err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			return st, fmt.Errorf("process %d does not answer, it may be stopped", p.PID)
		}
		return st, fmt.Errorf("process %d does not answer: %w", p.PID, err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if err != nil {
		return st, fmt.Errorf("process %d: %w", p.PID, err)
	}
	if answer.StatusCode != http.StatusOK {
		var f failure
		if json.Unmarshal(text, &f) != nil || f.Error == "" {
			f.Error = answer.Status
		}
		return st, fmt.Errorf("process %d: %s", p.PID, f.Error)
	}
	if err := json.Unmarshal(text, &st); err != nil {
		return st, fmt.Errorf("process %d answers in another form (another version of shoal?): %w", p.PID, err)
	}
	return st, nil
}
