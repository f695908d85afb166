package testnet

import (
	"fmt"
	"io"
	"runtime"
	"time"

	"shoal"
	"shoal/internal/sysinfo"
)

// Config says which peers are started, and what they train.
type Config struct {
	RunFile *shoal.RunFile
	Peers   int // processes, 1 to MaxPeers
	// Browsers is how many tabs of headless browsers there are beside them. Their numbers come after those of the processes.
	Browsers int
	// Dist is the folder with the built peer for browsers. Empty means the one inside this program, or one that is built now.
	Dist string
	// Weights is how the machine's memory is divided among the peers: each one's share of the model and of the work
	// follows what it offers. Nil means equal parts.
	Weights []int
	// Cores is how many cores all peers together compute with; each gets at least one. 0 means all.
	Cores int
	// Kernel is the peers' code path of the CPU. Empty means the best there is.
	Kernel string
	// Faults happen while the run goes on; bad ones are named by Validate.
	Faults []Fault
	// Slow has peers, by number, that compute so many times slower than they could.
	Slow map[int]float64
	pace float64 // the least that all are slower by, newcomers too; 0 for nothing
	// Out is a folder for the trained model. Empty means that it isn't kept.
	Out string
	// Checkpoint is a folder for the checkpoints of all peers, which is needed if checkpoint.every of the run file is not 0.
	// With Resume the run goes on from the newest one there.
	Checkpoint string
	Resume     bool
	// Program is the file of the program `shoal`. Empty means the running one.
	Program string
	// Timeout is how long all of it may take. 0 means for ever.
	Timeout time.Duration

	// OnStart is called when a process has been started.
	OnStart func(peer, pid int)
	// OnWait is called as the number of peers in the run changes, Progress after each step of the first peer that is still
	// there; all functions are called one at a time.
	OnWait   func(have, want int)
	Progress func(shoal.Progress)
	// OnNotice gets lines of text that a person should see. Nil means nobody.
	OnNotice func(text string)
	// Verbose gets the log of all peers. Nil means that they log nothing.
	Verbose io.Writer
}

// MaxPeers is the most members that a run can have in this release.
const MaxPeers = shoal.MaxPeers

// MaxSlow is the most times slower that a peer can be made.
const MaxSlow = 1000

const maxWeight = 1 << 20

// Validate tells what is wrong with c, if anything: a *shoal.ConfigError.
func (c *Config) Validate() error {
	wrong := func(field, format string, args ...any) error {
		return &shoal.ConfigError{Field: field, Err: fmt.Errorf(format, args...)}
	}
	if c.RunFile == nil {
		return wrong("", "testnet: no run file")
	}
	if err := c.RunFile.Validate(); err != nil {
		return wrong("", "testnet: run file: %w", err)
	}
	if err := shoal.CheckModel(*c.RunFile); err != nil {
		return err
	}
	if c.Peers < 1 || c.Peers > MaxPeers {
		return wrong("peers", "%d is not allowed here, use 1 to %d", c.Peers, MaxPeers)
	}
	if c.Browsers < 0 || c.all() > MaxPeers {
		return wrong("browsers", "%d is not allowed here, use 0 to %d", c.Browsers, MaxPeers-c.Peers)
	}
	if len(c.Weights) > 0 && len(c.Weights) != c.all() {
		return wrong("weights", "there are %d for %d peers, give one for each", len(c.Weights), c.all())
	}
	for _, w := range c.Weights {
		if w < 1 || w > maxWeight {
			return wrong("weights", "%d is not allowed here, use 1 to %d", w, maxWeight)
		}
	}
	if c.Cores < 0 {
		return wrong("cores", "%d is not allowed here, use 1 or more, or 0 for all", c.Cores)
	}
	if c.Timeout < 0 {
		return wrong("timeout", "%v is not allowed here, use 0 or more, as in 90s or 10m", c.Timeout)
	}
	switch every := c.RunFile.Checkpoint.Every; {
	case c.Resume && c.Checkpoint == "":
		return wrong("resume", "give the folder of the checkpoints too, as --checkpoint DIR")
	case c.Checkpoint != "" && every == 0 && !c.Resume:
		return wrong("checkpoint", "nothing would be saved, since checkpoint.every of the run file is 0")
	case c.Checkpoint == "" && every > 0:
		return wrong("checkpoint", "the run saves its state every %d steps (checkpoint.every of its run file): give a folder", every)
	}
	if err := shoal.CheckKernel(c.Kernel); err != nil {
		return wrong("kernel", "%w", err)
	}
	if flag, err := c.checkFaults(); err != nil {
		return wrong(flag, "%w", err)
	}
	return nil
}

// all is how many peers the run begins with.
func (c *Config) all() int { return c.Peers + c.Browsers }

// browser says whether peer i (from 0) is a tab.
func (c *Config) browser(i int) bool { return i >= c.Peers && i < c.all() }

// mostTabMemory is what a tab offers at most, in MiB: it takes all of it at once.
const mostTabMemory = 1 << 10

// memory is what peer i (from 0) offers, in MiB: its part, by weight, of nine tenths of the machine's. Those that join
// later offer what the first ones do on average.
func (c *Config) memory(i int) int64 {
	weight, sum := 1.0, float64(c.all())
	if len(c.Weights) > 0 {
		sum = 0
		for _, w := range c.Weights {
			sum += float64(w)
		}
		weight = sum / float64(c.all())
		if i < len(c.Weights) {
			weight = float64(c.Weights[i])
		}
	}
	most := sysinfo.Memory() >> 20
	if c.Browsers > 0 { // so that the shares stay those of the weights
		most = min(most, int64(mostTabMemory*sum/c.heaviest()))
	}
	return max(1, int64(0.9*float64(most)*weight/sum))
}

// heaviest is the largest of the weights; those of equal parts are 1.
func (c *Config) heaviest() float64 {
	heaviest := 1
	for _, w := range c.Weights {
		heaviest = max(heaviest, w)
	}
	return float64(heaviest)
}

// cores is how many cores peer i computes with: more threads than cores would only make the peers wait for one another.
func (c *Config) cores(i int) int {
	total := c.Cores
	if total == 0 {
		total = runtime.GOMAXPROCS(0)
	}
	n := total / c.all()
	if i < total%c.all() {
		n++
	}
	return max(1, n)
}
