package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"shoal"
	"shoal/internal/page"
	"shoal/internal/report"
	"shoal/peer"
	"shoal/swarm"
)

// nodeFlags are what `up` and `join` have in common.
type nodeFlags struct {
	memory           byteSize
	cores            int
	kernel           string
	listen, announce []string
	identity         string
	report, out      string
	checkpoint       string
	metrics          string
	page             string
	json             bool
	child            bool
	pauses           []string
	slow             float64
	via              []string
	lan              string
	plan             *shoal.Plan // of the run that it starts; nil without one
}

// kernelUsage explains --kernel wherever something is computed.
const kernelUsage = "code `path` of the CPU: avx512, avx2, neon (arm64) or generic (default: the best there is)"

func (n *nodeFlags) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.Var(&n.memory, "memory", "memory to offer, as in 512MiB or 4GiB; the share of model and work follows it (default: the machine's)")
	f.IntVar(&n.cores, "cores", 0, "cores to compute with (default: all)")
	f.StringVar(&n.kernel, "kernel", "", kernelUsage)
	f.StringSliceVar(&n.listen, "listen", nil, "`address` to listen on, host:port or multiaddr (default: all interfaces, any port)")
	f.StringSliceVar(&n.announce, "announce", nil, "further `address` at which others can dial this peer, host:port")
	f.StringVar(&n.identity, "identity", "", "`file` with this peer's key, made if missing (default: a new key)")
	f.StringVar(&n.report, "report", "", "`folder` for the report (default: none)")
	f.StringVar(&n.out, "out", "", "`folder` for the trained model: model.safetensors and config.json (default: none)")
	f.StringVar(&n.checkpoint, "checkpoint", "", "`folder` for this peer's parts of checkpoints, every checkpoint.every steps (default: none)")
	f.StringVar(&n.metrics, "metrics", "", "`address` at which Prometheus reads metrics of this run, as in 127.0.0.1:9464 (default: none)")
	f.StringVar(&n.page, "page", n.page, "`address` at which browsers find the page to join by, or none")
	f.BoolVar(&n.json, "json", false, "print the report as JSON on stdout, all else on stderr")
	f.BoolVar(&n.child, "child", false, "run under testnet: events on stdout, end with stdin")
	f.StringArrayVar(&n.pauses, "pause", nil, "with --child: wait at this `point`, ROLE@step:N[:PHASE], until the parent acts")
	f.Float64Var(&n.slow, "slow", 0, "compute this `many` times slower, to try out unequal peers")
	for _, name := range []string{"child", "pause", "slow"} {
		f.Lookup(name).Hidden = true
	}
}

func (n *nodeFlags) config(a *app) (shoal.Config, error) {
	return shoal.Config{
		Memory: int64(n.memory), Cores: n.cores, Kernel: n.kernel,
		Listen: n.listen, Announce: n.announce, Identity: n.identity, Out: n.out, Checkpoint: n.checkpoint,
		Via: n.via, LAN: n.lan, Slow: n.slow,
		Log: a.log,
	}, nil
}

func (a *app) upCommand() *cobra.Command {
	var n nodeFlags
	var peers int
	var resume bool
	var plan string
	var o *overrides
	cmd := &cobra.Command{
		Use:   "up RUN.yaml",
		Short: "Start a run and print the link with which others join it",
		Long: "Start the run that a run file describes (- reads it from stdin), print the link\n" +
			"with which others join, wait for them, and train.",
		Example: "  shoal up run.yaml --peers 3\n" +
			"  shoal up run.yaml --peers 2 --listen :4001 --announce example.org:4001\n" +
			"  shoal up run.yaml --report report/ --out model/\n" +
			"  shoal up run.yaml --checkpoint kept/ --resume\n" +
			"  shoal init | shoal up -",
		Args: takes(1, "a run file (`shoal init` prints one)"),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := n.config(a)
			if err != nil {
				return err
			}
			if peers < 1 || peers > shoal.MaxPeers {
				return wrongInput{fmt.Errorf("--peers: %d is not allowed here, use 1 to %d", peers, shoal.MaxPeers)}
			}
			if cmd.Flags().Changed("lan") && n.lan == "" {
				return noName
			}
			cfg.Peers, cfg.Resume = peers, resume
			if cfg.RunFile, err = a.readRunFile(args[0]); err != nil {
				return err
			}
			if err := o.apply(cfg.RunFile); err != nil {
				return err
			}
			if n.plan, err = readPlan(plan, cfg.RunFile, peers); err != nil {
				return err
			}
			return a.node(cmd.Context(), &n, cfg)
		},
	}
	n.add(cmd)
	o = &overrides{cmd: cmd}
	overrideData(o)
	cmd.Flags().StringSliceVar(&n.via, "via", nil, "`address` of a peer of any run, through which others are to find this one")
	cmd.Flags().StringVar(&n.lan, "lan", "", "`name` by which all on the local network find this run, and may join")
	cmd.Flags().BoolVar(&resume, "resume", false, "go on from the newest checkpoint in the folder of --checkpoint, which has the files of all peers")
	cmd.Flags().Lookup("page").Usage += " (default: all interfaces, a free port near 4780)"
	cmd.Flags().IntVar(&peers, "peers", 1, "peers to wait for, this one included")
	cmd.Flags().StringVar(&plan, "plan", "", "`file` with what shoal plan --json printed for this run, for the report to compare (default: none)")
	return cmd
}

func (a *app) joinCommand() *cobra.Command {
	n := nodeFlags{page: noPage}
	var files, cache string
	cmd := &cobra.Command{
		Use:   "join LINK | RUN-ID.SECRET --via ADDRESS | --lan NAME",
		Short: "Join a run by its link, through any peer, or by name nearby",
		Long: "Join a run. A link, as `shoal up` prints it, has all that it takes. The short\n" +
			"form RUN-ID.SECRET needs the address of a peer to ask, of this run or of any\n" +
			"other. A run that was started with --lan is found on the local network by its\n" +
			"name.",
		Example: "  shoal join shoal:...\n" +
			"  shoal join shoal:... --memory 4GiB --cores 2\n" +
			"  shoal join 5f0c...9a.c3e1...07 --via 192.0.2.10:4001\n" +
			"  shoal join --lan digits",
		Args: takesLinkUnless(&n.lan),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := n.config(a)
			if err != nil {
				return err
			}
			if n.lan == "" {
				if cfg.Link = bareLink(args[0]); cfg.Link == "" {
					return wrongInput{errors.New("the link is empty, copy the one that `shoal up` printed")}
				}
			}
			cfg.Files, cfg.Cache = files, cache
			return a.node(cmd.Context(), &n, cfg)
		},
	}
	n.add(cmd)
	cmd.Flags().StringSliceVar(&n.via, "via", nil, "`address` of a peer of any run, host:port or multiaddr, that is asked for the run RUN-ID.SECRET")
	cmd.Flags().StringVar(&n.lan, "lan", "", "`name` of the run on the local network, instead of a link")
	cmd.Flags().StringVar(&files, "data", "", "`where` this machine has the run's files, if it learns from files: mnist:DIR, text:FILE or tokens:FILE (default: they are fetched from other members)")
	cmd.Flags().StringVar(&cache, "cache", "", "`folder` for files that are fetched, or none (default: shoal/chunks in the user's cache folder)")
	return cmd
}

var noName = wrongInput{errors.New("--lan: the name is empty, give the run one, as in --lan digits")}

// takesLinkUnless wants a link, or none when the run is named by --lan.
func takesLinkUnless(lan *string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if *lan == "" && cmd.Flags().Changed("lan") {
			return noName
		}
		if *lan == "" {
			return takes(1, "the link that `shoal up` printed, or --lan NAME")(cmd, args)
		}
		if len(args) > 0 || cmd.Flags().Changed("via") {
			return wrongInput{errors.New("--lan finds the run by its name alone: give neither a link nor --via with it")}
		}
		return nil
	}
}

// bareLink takes off what chat programs, mails and careful people put around a link, and the address of the page that has
// the link behind its #.
func bareLink(text string) string {
	text = strings.Trim(text, " \t\r\n\"'`<>()[]“”‘’«».,;")
	if i := strings.Index(text, "#shoal:"); i >= 0 {
		return text[i+1:]
	}
	return text
}

// otherWays says how one joins without the link.
func otherWays(link, lan string) (ways []string) {
	l, err := peer.ParseLink(link)
	if err != nil {
		return nil
	}
	ways = append(ways, "or, knowing the address of any peer: shoal join "+l.Invitation()+" --via HOST:PORT")
	if lan != "" {
		ways = append(ways, "or, on this network: shoal join --lan "+lan)
	}
	return ways
}

// reachable says whether a link has an address that is more than the machine's own.
func reachable(link string) bool {
	l, err := peer.ParseLink(link)
	return err == nil && slices.ContainsFunc(l.Addrs, func(a string) bool {
		return !strings.HasPrefix(a, "/ip4/127.") && !strings.HasPrefix(a, "/ip6/::1/")
	})
}

// node takes part in a run and shows it.
func (a *app) node(ctx context.Context, n *nodeFlags, cfg shoal.Config) error {
	if n.child {
		return a.child(ctx, n, cfg)
	}
	d := newDisplay(a.progressTo(n.json))
	defer d.Close()
	cfg.OnWait, cfg.Progress, cfg.OnNotice = d.Wait, d.Progress, d.Notice
	d.linkDue = cfg.RunFile != nil
	var self string
	cfg.OnSelf = func(id string) {
		self = "this is peer " + swarm.Short(id)
		if !d.linkDue {
			d.Line("%s", self)
		}
	}
	var site *page.Server
	if cfg.RunFile == nil {
		cfg.OnOwnLink = func(link string) {
			d.Line("others can join through this peer, too: shoal join %s", link)
			for _, way := range pageLinks(site, link) {
				d.Line("%s", way)
			}
		}
	}
	cfg.OnLink = func(link string) {
		d.Link(link, append(append(otherWays(link, cfg.LAN), pageLinks(site, link)...), self)...)
		if cfg.Peers > 1 && len(cfg.Listen)+len(cfg.Announce) == 0 && !reachable(link) {
			fmt.Fprintln(a.stderr, "shoal: this machine has no network address that others can reach: only processes on this machine can join")
		}
	}
	var err error
	if site, err = n.servePage(&cfg); err != nil {
		return err
	}
	if site != nil {
		defer site.Close()
	}
	end, err := observe(&cfg, n.metrics)
	if err != nil {
		return err
	}
	defer end()
	undo, err := makeFolder(n.report)
	if err != nil {
		return err
	}
	r, err := shoal.Run(ctx, cfg)
	d.Close()
	if r == nil {
		undo()
		return err
	}
	comparePlan(r, n.plan)
	err = errors.Join(err, a.finish(r, n.report, n.json))
	if site != nil {
		site.Linger(ctx) // pages that look on see that the run is over
	}
	return err
}

// progressTo is where a run is shown.
func (a *app) progressTo(json bool) io.Writer {
	if json {
		return a.stderr
	}
	return a.stdout
}

// makeFolder makes a folder for a report that can be written, before training begins. undo removes it if it is empty.
func makeFolder(folder string) (undo func(), err error) {
	if folder == "" {
		return func() {}, nil
	}
	if undo, err = report.MakeFolder(folder); err != nil {
		return nil, wrongInput{fmt.Errorf("--report: %w", err)}
	}
	return undo, nil
}

// finish writes and prints the report of a run that is done. What can't be written is no reason not to print it.
func (a *app) finish(r *shoal.Report, folder string, asJSON bool) error {
	var failed error
	if folder != "" {
		failed = r.Write(folder)
	}
	if asJSON {
		text, err := r.JSON()
		if err == nil {
			_, err = a.stdout.Write(text)
			err = unlessGone(err)
		}
		if err != nil {
			err = fmt.Errorf("print the report: %w", err)
		}
		return errors.Join(failed, err)
	}
	if failed != nil {
		folder = ""
	}
	return errors.Join(failed, a.summary(r, folder))
}

// summary prints what people want to know of a run. folder has its report, or is empty.
func (a *app) summary(r *shoal.Report, folder string) error {
	width := terminal(a.stdout)
	if width == 0 {
		width = defaultWidth
	}
	var b bytes.Buffer
	fmt.Fprintln(&b)
	if err := r.Table(&b, width); err != nil {
		return err
	}
	fmt.Fprintln(&b)
	if err := r.FaultTable(&b); err != nil {
		return err
	}
	if e := r.Eval; e != nil {
		fmt.Fprintf(&b, "accuracy    %.2f%% on held-out samples, loss %.4f\n", 100*e.Accuracy, float64(e.Loss))
	}
	if r.ResumedStep > 0 {
		fmt.Fprintf(&b, "resumed     from the checkpoint of step %d; times, bytes and samples are those since then\n", r.ResumedStep)
	}
	fmt.Fprintf(&b, "time        %.1f s, %.0f samples/s\n", r.WallSeconds, r.SamplesPerSecond)
	if p := r.Plan; p != nil && p.Step != nil {
		fmt.Fprintf(&b, "plan        a step took %s instead of %s: %+.0f%%; bytes %+.1f%%, memory %+.1f%%\n",
			seconds(p.Step.Measured), seconds(p.Step.Planned), 100*p.Step.Off(), 100*p.Received.Off(), 100*p.Rest.Off())
	}
	fmt.Fprintf(&b, "state hash  %s\n", r.StateHash)
	if folder != "" {
		fmt.Fprintf(&b, "report      %s\n", filepath.Join(folder, "report.html"))
	}
	_, err := a.stdout.Write(b.Bytes())
	return unlessGone(err)
}
