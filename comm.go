package shoal

import (
	"context"
	"errors"

	"shoal/fsdp"
	"shoal/swarm"
)

// comm makes a Node the engine's Comm: the packages don't know each other's types.
type comm struct {
	node  *swarm.Node
	enter func(v *swarm.View, payload []byte) // called with each view that begins, before the engine has it
	begun func(ctx context.Context)           // called with each attempt, which ends with ctx

	restored uint64       // log index of the last Restore
	back     *swarm.Entry // by which the run has gone back to a checkpoint, once it has
}

var _ fsdp.Comm = (*comm)(nil)

func (c *comm) Begin(ctx context.Context, fence uint64, sink fsdp.Sink) (context.Context, error) {
	until, err := c.node.Begin(ctx, fence, engineSink{sink})
	if err == nil {
		c.begun(until)
	}
	return until, err
}

func (c *comm) AllGather(ctx context.Context, tag uint32, width int, mine []byte, takes []bool, parts [][]byte) (wait, given func() error) {
	return c.node.AllGather(ctx, tag, width, mine, takes, parts)
}

func (c *comm) Give(ctx context.Context, kind fsdp.Kind, tag uint32, parts [][]byte, count int) (wait func() error) {
	return c.node.Give(ctx, giveKinds[kind], tag, parts, count)
}

func (c *comm) SetPhase(phase string, unit int) { c.node.SetPhase(phase, unit) }

func (c *comm) Ready(payload []byte) error { return c.node.Ready(payload) }

func (c *comm) Next(ctx context.Context) (fsdp.Entry, error) {
	e, err := c.node.Next(ctx)
	if errors.Is(err, swarm.ErrLeft) {
		err = fsdp.ErrLeft
	}
	if err != nil {
		return fsdp.Entry{}, err
	}
	if e.Restored != c.restored {
		c.back = &e
		return fsdp.Entry{}, fsdp.ErrRestored
	}
	if e.View != nil {
		c.enter(e.View, e.Payload)
	}
	return engineEntry(e), nil
}

var giveKinds = map[fsdp.Kind]swarm.Kind{fsdp.Gradient: swarm.Gradient, fsdp.Forward: swarm.Forward, fsdp.FillData: swarm.State}

var sinkKinds = map[swarm.Kind]fsdp.Kind{swarm.Gradient: fsdp.Gradient, swarm.Forward: fsdp.Forward, swarm.State: fsdp.FillData}

// engineSink gives a Node's pieces to the engine.
type engineSink struct{ fsdp.Sink }

func (s engineSink) Add(kind swarm.Kind, tag, source, offset int, data []byte) error {
	return s.Sink.Add(sinkKinds[kind], tag, source, offset, data)
}

func (s engineSink) Done(kind swarm.Kind, tag, source, count int) error {
	return s.Sink.Done(sinkKinds[kind], tag, source, count)
}

var entryKinds = map[swarm.EntryKind]fsdp.EntryKind{swarm.EntryCommit: fsdp.EntryCommit, swarm.EntryRetry: fsdp.EntryRetry,
	swarm.EntryDone: fsdp.EntryDone, swarm.EntryView: fsdp.EntryView, swarm.EntryLate: fsdp.EntryLate}

// engineEntry is an entry of the log as the engine has it.
func engineEntry(e swarm.Entry) fsdp.Entry {
	to := fsdp.Entry{Fence: e.Fence, Kind: entryKinds[e.Kind], Payload: e.Payload, Work: e.Work}
	for _, f := range e.Fills {
		to.Fills = append(to.Fills, fsdp.Fill{Range: f.Range, To: f.To})
	}
	if v := e.View; v != nil {
		to.View = &fsdp.View{Fence: v.Fence, Rank: v.Rank, Size: len(v.Members), Owner: v.Place.Owner, Backups: v.Place.Backups}
		to.View.NoFiles = make([]bool, len(v.Members))
		for r, p := range v.Members {
			to.View.Exporting = to.View.Exporting || p.Offer.Out
			to.View.NoFiles[r] = p.Offer.Kind != "daemon"
		}
	}
	return to
}
