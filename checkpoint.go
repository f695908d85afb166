package shoal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"shoal/fsdp"
	"shoal/internal/checkpoint"
	"shoal/internal/report"
	"shoal/internal/runfile"
	"shoal/swarm"
)

// A run with Config.Checkpoint keeps its state in a folder now and then (internal/checkpoint), and one with Config.Resume
// goes on from there. The peer that starts the run chooses the checkpoint; the run's description tells the others.

// resumePoint is the checkpoint that a run goes on from. Its JSON fields are part of the protocol.
type resumePoint struct {
	Manifest string        `json:"manifest"` // hash
	Position fsdp.Position `json:"position"`
}

// resumeOf is where the run goes on that a description is of; nil: it begins afresh.
func resumeOf(run []byte) (*resumePoint, error) {
	var d struct {
		Resume *resumePoint `json:"resume"`
	}
	if err := json.Unmarshal(run, &d); err != nil {
		return nil, fmt.Errorf("the run's description is not readable: %w", err)
	}
	return d.Resume, nil
}

// startOf is resumeOf for a Decider.
func startOf(run []byte) (*fsdp.Position, error) {
	r, err := resumeOf(run)
	if err != nil || r == nil {
		return nil, err
	}
	return &r.Position, nil
}

// known is a checkpoint as the log knows it.
func (t *task) known(p *resumePoint) (*swarm.Saved, error) {
	run, err := t.describe(p)
	return &swarm.Saved{Name: p.Manifest, Step: p.Position.Step, Run: run}, err
}

// keeps is the checkpoint that an outcome has made whole, if it has.
func (t *task) keeps(payload []byte) (*swarm.Saved, error) {
	o, err := fsdp.DecodeOutcome(payload)
	if err != nil || o.Saved == nil || o.Saved.Failed != "" {
		return nil, err
	}
	return t.known(&resumePoint{o.Saved.Manifest, o.Saved.Position})
}

// checkCheckpoint wants a folder where there are checkpoints, and none where there are none. A browser needs none: backups
// of what it owns save that.
func (m *member) checkCheckpoint() error {
	every, point := m.task.run.Checkpoint.Every, m.task.resume
	switch {
	case kind != "daemon" && m.cfg.Checkpoint == "":
		return nil
	case m.cfg.Checkpoint != "" && every == 0 && !m.cfg.Resume && point == nil:
		return &ConfigError{"checkpoint", errors.New("nothing would be saved, since checkpoint.every of the run file is 0")}
	case m.cfg.Checkpoint == "" && every > 0:
		return &ConfigError{"checkpoint", fmt.Errorf("the run saves its state every %d steps (checkpoint.every of its run file): give a folder", every)}
	case m.cfg.Checkpoint == "" && point != nil:
		return &ConfigError{"checkpoint", fmt.Errorf("the run goes on from the checkpoint of step %d: give the folder that has it", point.Position.Step)}
	}
	return nil
}

// saved says whose checkpoints are those of this run.
func (t *task) saved(runID string) checkpoint.Run {
	run := t.run
	run.Data.Path = ""
	return checkpoint.Run{Task: t.trained, RunFile: string(runfile.Marshal(run)), ID: runID, Data: t.identity()}
}

// openCheckpoints makes Config.Checkpoint this run's folder and, with Config.Resume, chooses what to go on from. It is for
// the peer that starts the run.
func (m *member) openCheckpoints(ctx context.Context) error {
	if err := m.checkCheckpoint(); err != nil {
		return err
	}
	dir := m.cfg.Checkpoint
	if dir == "" {
		return nil
	}
	if err := m.claimCheckpoints(); err != nil {
		return err
	}
	swept, err := checkpoint.Sweep(dir)
	if err != nil {
		return &ConfigError{"checkpoint", err}
	}
	for _, step := range swept {
		m.notice("the checkpoint of step %d in %s was not finished and is removed", step, dir)
	}
	entries, err := checkpoint.List(dir)
	if err != nil {
		return &ConfigError{"checkpoint", err}
	}
	switch {
	case len(entries) == 0 && m.cfg.Resume:
		m.notice("there is no checkpoint in %s: the run begins afresh", dir)
		return nil
	case len(entries) == 0:
		return nil
	case !m.cfg.Resume:
		return &ConfigError{"checkpoint", fmt.Errorf("%s has checkpoints of this run up to step %d: go on with --resume, or give another folder",
			dir, entries[len(entries)-1].Step)}
	}
	return m.choose(ctx, entries)
}

// claimCheckpoints makes Config.Checkpoint the folder of this run, and of no other as long as one of its processes lives.
func (m *member) claimCheckpoints() error {
	_, err := report.MakeFolder(m.cfg.Checkpoint)
	if err == nil {
		m.lock, err = checkpoint.TryLock(m.cfg.Checkpoint, m.runID)
	}
	if err != nil {
		return &ConfigError{"checkpoint", err}
	}
	err = checkpoint.Claim(m.cfg.Checkpoint, m.task.saved(m.runID))
	var other *checkpoint.OtherRunError
	if errors.As(err, &other) {
		err = fmt.Errorf("%w%s", err, m.task.differs(other.RunFile))
	}
	if err != nil {
		return &ConfigError{"checkpoint", err}
	}
	return nil
}

// differs says in which key another run file differs, as far as that is known.
func (t *task) differs(text string) string {
	run, err := runfile.Parse([]byte(text))
	if err != nil {
		return ""
	}
	mine, theirs := t.run.Result(), run.Result()
	for _, line := range theirs {
		if !slices.Contains(mine, line) {
			return fmt.Sprintf(" (theirs has %.100s)", strings.Replace(line, "=", ": ", 1))
		}
	}
	return ""
}

// choose takes the newest checkpoint that is whole and undamaged.
func (m *member) choose(ctx context.Context, entries []checkpoint.Entry) error {
	var failed []error
	for i, e := range slices.Backward(entries) {
		c, err := checkpoint.Open(e)
		if err == nil {
			if err = c.Verify(ctx); ctx.Err() != nil {
				c.Close()
				return context.Cause(ctx)
			}
		}
		if err == nil {
			for _, bad := range entries[i+1:] {
				if err := checkpoint.SetAside(bad); err != nil {
					c.Close()
					return &ConfigError{"checkpoint", err}
				}
			}
			m.checkpoint, m.task.resume = c, &resumePoint{c.Hash, c.Manifest.Position}
			m.notice("going on from the checkpoint of step %d in %s", c.Step, m.cfg.Checkpoint)
			return nil
		}
		if c != nil {
			c.Close()
		}
		m.notice("the checkpoint of step %d can't be used: %v", e.Step, err)
		failed = append(failed, err)
	}
	return &ConfigError{"checkpoint", fmt.Errorf("no checkpoint in %s can be used, the newest because %w", m.cfg.Checkpoint, failed[0])}
}

var errNoFolder = errors.New("this peer has no folder for checkpoints")

// joinCheckpoints is openCheckpoints for a peer that joins.
func (m *member) joinCheckpoints() error {
	if err := m.checkCheckpoint(); err != nil {
		return err
	}
	if m.cfg.Checkpoint == "" {
		if m.task.resume != nil {
			m.missing = errNoFolder
		}
		return nil
	}
	if err := m.claimCheckpoints(); err != nil {
		return err
	}
	entries, err := checkpoint.List(m.cfg.Checkpoint)
	if err != nil {
		return &ConfigError{"checkpoint", err}
	}
	point := m.task.resume
	for _, e := range entries {
		switch {
		case errors.Is(e.Err, checkpoint.ErrPartial) || e.Manifest != nil && e.Manifest.ID == m.runID: // of this run, perhaps in the making
		case point == nil && e.Err == nil:
			return &ConfigError{"checkpoint", fmt.Errorf("%s has checkpoints, the newest of step %d, and the run begins afresh: give another folder",
				m.cfg.Checkpoint, entries[len(entries)-1].Step)}
		case point != nil && e.Step > point.Position.Step: // the run comes to that step again
			if err := checkpoint.SetAside(e); err != nil {
				return &ConfigError{"checkpoint", err}
			}
		}
	}
	if point != nil {
		m.findCheckpoint(entries, point)
	}
	return nil
}

// findCheckpoint opens the checkpoint that the run goes on from. A peer without it is no member of the first view: it gets
// its part from the others, as one that joins later does.
func (m *member) findCheckpoint(entries []checkpoint.Entry, point *resumePoint) {
	err := fmt.Errorf("%s does not have it", m.cfg.Checkpoint)
	m.missing = nil
	for _, e := range entries {
		if e.Hash == point.Manifest {
			if m.checkpoint, err = checkpoint.Open(e); err == nil {
				return
			}
		}
	}
	m.checkpoint = nil
	m.missing = fmt.Errorf("the run goes on from the checkpoint of step %d: %w", point.Position.Step, err)
}

// saving completes an engine's configuration by what is saved and resumed. A member that joins a run that is under way gets
// what it holds from others.
func (m *member) saving(cfg *fsdp.Config, late bool) error {
	cfg.SaveEvery = m.task.run.Checkpoint.Every
	if cfg.SaveEvery > 0 && m.cfg.Checkpoint != "" {
		cfg.Saver = &keeper{m: m, Saver: checkpoint.Saver{Dir: m.cfg.Checkpoint, Run: m.task.saved(m.runID), Keep: m.task.run.Checkpoint.Keep,
			Notice: func(text string) {
				m.cfg.Log.Warn(text)
				m.notice("%s", text)
			}}}
	}
	m.tellReadable()
	c := m.checkpoint
	switch {
	case late:
		return nil
	case m.missing != nil: // the log has no such member in the first view
		return &ConfigError{"checkpoint", m.missing}
	case c == nil:
		return nil
	}
	losses, hashes, err := c.History()
	if err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	cfg.Resume = &fsdp.Resume{Position: m.task.resume.Position, Read: c.Read, Losses: losses, StepHashes: hashes}
	return nil
}

// keeper is a Saver that tells the others what this peer could read if the run had to go back.
type keeper struct {
	checkpoint.Saver
	m *member
}

func (k *keeper) Finish(s *fsdp.Saved) {
	k.Saver.Finish(s)
	k.m.tellReadable()
}

// tellReadable has the others know the newest checkpoint of this run whose files are all in Config.Checkpoint.
func (m *member) tellReadable() {
	if m.cfg.Checkpoint == "" {
		return
	}
	point := m.task.resume
	m.node.SetSaved(checkpoint.Newest(m.cfg.Checkpoint, func(e checkpoint.Entry) bool {
		return e.Manifest.ID == m.runID || point != nil && e.Hash == point.Manifest
	}))
}

// follow takes over where the run goes on, if it has gone back to a checkpoint. Whoever begins with that checkpoint sets
// newer ones aside: the run comes to their steps again.
func (m *member) follow(e swarm.Entry) error {
	if e.Restored == 0 {
		return nil
	}
	point, err := resumeOf(e.Run)
	if err != nil {
		return err
	}
	if m.checkpoint != nil {
		m.checkpoint.Close()
		m.checkpoint = nil
	}
	m.task.resume = point
	if m.cfg.Checkpoint == "" {
		m.missing = errNoFolder
		return nil
	}
	entries, err := checkpoint.List(m.cfg.Checkpoint)
	if err != nil {
		return &ConfigError{"checkpoint", err}
	}
	m.findCheckpoint(entries, point)
	for _, newer := range entries {
		if e.Payload == nil && newer.Err == nil && newer.Step > point.Position.Step {
			if err := checkpoint.SetAside(newer); err != nil && !errors.Is(err, fs.ErrNotExist) { // another peer of this machine was first
				return &ConfigError{"checkpoint", err}
			}
		}
	}
	return nil
}

// Checkpoint is one in a folder, see Checkpoints.
type Checkpoint struct {
	Step  int
	Path  string
	Bytes int64  // of all its files
	Name  string // of the run
	Err   error  // why it can't be used; otherwise nil
	entry checkpoint.Entry
}

// Checkpoints lists the checkpoints in dir, oldest first. Whether they are undamaged is for Verify to say.
func Checkpoints(dir string) ([]Checkpoint, error) {
	entries, err := checkpoint.List(dir)
	if err != nil {
		return nil, fmt.Errorf("checkpoints: %w", err)
	}
	var list []Checkpoint
	for _, e := range entries {
		c := Checkpoint{Step: e.Step, Path: e.Path, Err: e.Err, entry: e}
		if e.Manifest != nil {
			for _, f := range e.Manifest.Files {
				c.Bytes += f.Bytes
			}
			if run, err := runfile.Parse([]byte(e.Manifest.RunFile)); err == nil {
				c.Name = run.Name
			}
		}
		list = append(list, c)
	}
	return list, nil
}

// Verify reads all files of c and says what is wrong with the first that is missing or damaged.
func (c *Checkpoint) Verify(ctx context.Context) error {
	f, err := checkpoint.Open(c.entry)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Verify(ctx)
}

// Export writes the model of c into the folder out, as Config.Out has it.
func (c *Checkpoint) Export(ctx context.Context, out string) (err error) {
	f, err := checkpoint.Open(c.entry)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Verify(ctx); err != nil {
		return err
	}
	run, err := runfile.Parse([]byte(f.Manifest.RunFile))
	if err != nil {
		return fmt.Errorf("%s: %w", f.Path, err)
	}
	if run.Model.Type == runfile.Custom {
		return fmt.Errorf("%s is of a Go program's own model: only that program can export it", f.Path)
	}
	model, err := buildModel(run.Model)
	if err != nil {
		return err
	}
	undo, err := report.MakeFolder(out)
	if err != nil {
		return &ConfigError{"out", err}
	}
	defer func() {
		if err != nil {
			undo()
		}
	}()
	if err := checkOut(out, model); err != nil {
		return err
	}
	o, err := newOutput(out, model)
	if err != nil {
		return err
	}
	defer o.abort()
	values := make([]float32, 1<<16)
	for _, u := range model.Units() {
		for _, p := range u.Params {
			for at := 0; at < p.Len(); at += len(values) {
				v := values[:min(len(values), p.Len()-at)]
				if err := f.Read(fsdp.Params, p.Name, at, v); err != nil {
					return err
				}
				if err := o.addAt(p, at, v); err != nil {
					return err
				}
			}
		}
	}
	return o.finish(run, f.Manifest.Data, f.Manifest.ID, f.Manifest.StateHash)
}
