package shoal

import (
	"cmp"
	"context"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"shoal/fsdp"
	"shoal/kernel"
)

// rehearsed is what was measured of a peer's step.
type rehearsed struct {
	backend      string
	share        int   // microbatches
	peak         int64 // bytes in a step, beside those at rest
	step, update float64
	packed       float64 // what packing leaves of the bytes, as a share
}

// rehearse has as many peers as cfg.Here names take steps at once on this machine, each waiting for the others as in a run, but
// for those to whom no microbatch is left. Times are their median, memory is the most of any. One that fails ends all.
func (t *task) rehearse(ctx context.Context, cfg *PlanConfig, views []fsdp.View) (r rehearsed, err error) {
	n, procs := min(cfg.Here, t.microbatches()), runtime.GOMAXPROCS(0)
	runtime.GOMAXPROCS(procs * n) // as many processes would have: what arrives need not wait for what computes
	defer runtime.GOMAXPROCS(procs)
	list, company := make([]rehearsed, n), fsdp.NewCompany(n)
	all, ctx := errgroup.WithContext(ctx)
	for i := range list {
		all.Go(func() (err error) {
			list[i], err = t.rehearseOne(ctx, cfg, &views[i], company)
			return err
		})
	}
	if err := all.Wait(); err != nil {
		return r, err
	}
	slices.SortFunc(list, func(a, b rehearsed) int { return cmp.Compare(a.step, b.step) })
	r = list[len(list)/2]
	for _, o := range list {
		r.peak = max(r.peak, o.peak)
	}
	return r, nil
}

func (t *task) rehearseOne(ctx context.Context, cfg *PlanConfig, v *fsdp.View, company *fsdp.Company) (r rehearsed, err error) {
	c := t.seen(v)
	c.Eval, c.ActivationBudget = nil, cfg.Memory/4
	if c.Device, err = newDevice(&Config{Cores: cfg.Cores, Kernel: cfg.Kernel, Memory: cfg.Memory}); err != nil {
		return r, err
	}
	defer c.Device.Close()
	packing, err := newPackingTrial(cfg)
	if err != nil {
		return r, err
	}
	carrier, err := newLoopback(ctx, v.Rank, v.Size)
	if err != nil {
		return r, err
	}
	defer carrier.Close()
	took, err := fsdp.Rehearse(ctx, c, cfg.about, func(g fsdp.Given) (wait func() error) {
		if g.Early {
			packing.given(g)
		}
		return carrier.carry(g)
	}, company)
	if err != nil {
		return r, err
	}
	meter, left := c.Device.Meter(), time.Duration(took.Share-took.Microbatches)
	r = rehearsed{backend: c.Device.Name(), share: took.Share, packed: packing.share(), update: took.Update.Seconds(),
		step: (took.Step + left*took.Microbatch).Seconds()}
	activations := meter.Peak(kernel.Activations) * int64(took.Share) / int64(took.Microbatches)
	r.peak = meter.Peak(kernel.Gathered) + meter.Peak(kernel.GradientWork) + activations
	return r, nil
}

// travel is how long a step's bytes and messages are on their way, in seconds.
type travel struct {
	bytes float64 // all bytes, one after another on the link
	start float64 // until the first byte of the first unit is there; later ones are asked for ahead of time
	first float64 // until the first unit is there, before which nothing is computed
	last  float64 // for the last gradient, when nothing is left to compute
	end   float64 // the messages by which all know that a step is committed
}

const bitsPerByte = 8

func (t *task) travel(cfg *PlanConfig, views []fsdp.View, f forecast, packed float64) travel {
	c := t.seen(&views[0])
	first, last, gathers := fsdp.Edges(&c)
	byteTime, way := packed*bitsPerByte/cfg.Link, cfg.Latency.Seconds()
	return travel{
		bytes: byteTime * f.received,
		start: way * float64(min(1, gathers)),
		first: byteTime*float64(first) + way*float64(min(1, gathers)),
		last:  byteTime * float64(last),
		end:   way * float64(messages(cfg.Peers)),
	}
}

// messages is how many must arrive, one after another, from the moment when the last gradient is computed to the commit of
// the step everywhere.
func messages(peers int) int {
	if peers == 1 {
		return 0
	}
	n := 4 // a gradient, its sum for backups or that it has arrived, Ready, the commit
	if peers > 2 {
		n += 2 // the other voters say that they have the log's entry
	}
	return n
}

// step is how long a step takes. Bytes travel while others are computed with, so of the two what takes longer counts, with
// what can't go on beside it: the ends of the network's part, or the update.
func (n travel) step(r rehearsed) float64 {
	return max(n.first+r.step+n.last, n.start+n.bytes+r.update) + n.end
}
