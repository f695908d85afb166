// Package shoal trains one neural network on several peers, fully sharded, with a result that does not depend on how
// many they are. Run is the whole library: one call starts a run or joins one, and returns its report.
//
// The order of a run, and where to read on: peer (host and link), swarm (the run's log and the collectives), fsdp (the
// training step), kernel (the devices), model (what is trained). cmd/shoal, testnet and programs of one's own are
// callers of Run.
package shoal

import (
	"context"
	"log/slog"
	"time"

	"shoal/fsdp"
	"shoal/internal/report"
	"shoal/internal/runfile"
	"shoal/model"
)

// Dataset is a list of samples (see fsdp.Dataset).
type Dataset = fsdp.Dataset

// RunFile is what a run file says; its fields are documented in docs/run-file.md.
type RunFile = runfile.Run

// ParseRunFile reads a run file (YAML). A key that is left out has its default; an unknown key or a value that is not
// allowed is an error that names it.
func ParseRunFile(text []byte) (RunFile, error) { return runfile.Parse(text) }

// Report is the result of a run; its fields are documented in docs/report.md.
type Report = report.Report

// Config is one peer's part in a run. The zero value of each field is its default.
type Config struct {
	// RunFile is what is trained and how. The peer that starts the run sets it; a peer that joins gets it from the
	// run and leaves it nil. With a Model of one's own its model type is "custom".
	RunFile *RunFile

	// Model and Data are the program's own model and samples, the same on every peer; Eval are held-out samples, or
	// nil. Where Model is nil, all three are made from the run file.
	Model model.Model
	Data  Dataset
	Eval  Dataset

	// Files is where this machine has the files of a run file whose data.source is files: "mnist:DIR", "text:FILE" or
	// "tokens:FILE". Empty means data.path of RunFile, and for a peer that joins, that it fetches them from others. What
	// is in them must be the same on every peer.
	Files string
	// Cache is the folder for what is fetched from others, "none" for memory alone. Empty means shoal/chunks in the
	// system's folder for caches (os.UserCacheDir).
	Cache string

	// Link joins the run that it names. Empty means: start one, or join the one that LAN names.
	Link string
	// Via are addresses (host:port or multiaddrs) of peers of any runs. With them, Link is the short form RUN-ID.SECRET,
	// and they are asked where that run is. A run that is started can be found through them.
	Via []string
	// LAN is the run's name on the local network. Where RunFile starts a run, it is found there by this name, and
	// whoever is on that network may join. Where RunFile is nil and Link empty, the run of this name is joined.
	LAN string
	// Peers is how many peers a new run waits for, this one included. 0 means 1.
	Peers int

	// Memory is the number of bytes that this peer offers: its share of the parameters and of the work follows it. 0
	// means the memory of the machine.
	Memory int64
	// Cores is the number of cores to compute with. 0 means all.
	Cores int
	// Kernel is the code path of the CPU: "avx512", "avx2", "neon" or "generic". Empty means the best there is.
	Kernel string

	// Listen are the addresses to listen on, as multiaddrs or host:port. Empty means all interfaces, any port.
	Listen []string
	// Announce are further addresses under which others can dial this peer.
	Announce []string
	// Identity is the file with this peer's key, made if it is missing. Empty means a new key for this run.
	Identity string

	// Out is a folder for the trained model: model.safetensors and config.json, which OpenTrained reads. Empty means that
	// this peer doesn't keep it.
	Out string

	// Checkpoint is the folder for this peer's parts of checkpoints, which it must have if checkpoint.every of the run file
	// is not 0. Peers of one machine may share it.
	Checkpoint string
	// Resume has a run that is started go on from the newest good checkpoint in the folder Checkpoint, which must have the
	// files of all peers then; without one it begins afresh. Peers that join need no such word.
	Resume bool

	// OnSelf is called once, with this peer's id, before it talks to anybody.
	OnSelf func(peerID string)
	// OnLink is called once the run can be joined, with the link for others, on the peer that starts it.
	OnLink func(link string)
	// OnOwnLink is called on every peer once the run can be joined by way of it, with the link for that: whoever started the
	// run may be gone when others come.
	OnOwnLink func(link string)
	// OnNotice is called with each line that a user should read: that a run is being looked for, and what was found instead;
	// that the result depends on the peers (precision.reduce: fp32 or bf16); what a run goes on from; that a checkpoint
	// could not be saved. It may be called at any time before Run returns, once at a time.
	OnNotice func(text string)
	// OnWait is called as the number of peers in a run that has not begun changes.
	OnWait func(have, want int)
	// OnLost is called when the others have gone on without this peer, before it joins again as a newcomer.
	OnLost func(reason string)
	// Progress is called after each step, and when what follows the last one begins; one call at a time.
	Progress func(Progress)
	// Trace is called for each span of a step, from several goroutines.
	Trace func(fsdp.Event)
	// OnLive is called once, when this peer is in the run, with what tells about it and can act on it meanwhile.
	OnLive func(*Live)
	// At is called at the points of each step at which faults are tried out, by the goroutine that computes, which waits
	// for it. Slow, if more than 1, has this peer compute as many times slower than it could. Both are for tests.
	At   func(fsdp.Point)
	Slow float64
	// Log gets what a maintainer wants to know. Nil means none.
	Log *slog.Logger
}

// Phase is what a run is busy with.
type Phase string

const (
	Training   Phase = "training"
	Evaluating Phase = "evaluating" // on held-out samples, after the last step
	Saving     Phase = "saving"     // the model into Config.Out, after that
)

// Progress is where a run is.
type Progress struct {
	Phase       Phase
	Step, Steps int
	Loss        float64 // mean over the step's labels; NaN if it was not finite
	Samples     int64   // committed since the start
	Elapsed     time.Duration
	Peers       int
}

// Run takes part in a run until it is done, and returns its report, which is the same on every peer but for wall times.
// When ctx is cancelled, the others take over what this peer holds before it goes. If all went well but for the files in Config.Out, there is both a
// report and an error.
func Run(ctx context.Context, cfg Config) (*Report, error) {
	return run(ctx, cfg)
}
