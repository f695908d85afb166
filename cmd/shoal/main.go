// Command shoal trains one neural network on several peers. The work is in package shoal; here are flags, and what a
// user sees.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"shoal"
	"shoal/internal/version"
	"shoal/peer"
)

// Exit codes. Interrupted is what shells expect after Ctrl-C.
const (
	exitOK          = 0
	exitFailed      = 1
	exitWrongInput  = 2
	exitInterrupted = 130
)

// patience is how long an interrupted process may take to leave its run politely.
const patience = 4500 * time.Millisecond

var errInterrupted = errors.New("interrupted")

func main() {
	runtime.MemProfileRate = 0 // what it notes of each place that allocates is never looked at, and never let go
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // as under nohup
		signal.Notify(signals, syscall.SIGHUP) // a terminal that is closed
	}
	go func() {
		<-signals
		cancel(errInterrupted)
		select {
		case <-signals: // the user does not want to wait
		case <-time.After(patience):
		}
		os.Exit(exitInterrupted)
	}()
	signal.Ignore(syscall.SIGPIPE) // a reader that goes, as head does, is no reason to stop training
	os.Exit(run(ctx, os.Args[1:], os.Stdin, pipe{os.Stdout}, pipe{os.Stderr}))
}

// app is what the commands share: the process's streams, and the flags of all of them.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	verbose        bool
	log            *slog.Logger // nil unless verbose
}

// wrongInput marks an error that the user's flags or files caused.
type wrongInput struct{ error }

func (e wrongInput) Unwrap() error { return e.error }

// run is the whole program. An error is one line on stderr.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	a := &app{stdin: stdin, stdout: stdout, stderr: stderr}
	root := a.root()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil || errors.Is(err, errReaderGone) {
		return exitOK
	}
	code := exitFailed
	var wrong *shoal.ConfigError
	switch {
	case errors.Is(context.Cause(ctx), errInterrupted):
		code, err = exitInterrupted, errInterrupted
	case errors.Is(err, errInterrupted):
		code = exitInterrupted
	case errors.As(err, &wrong):
		code, err = exitWrongInput, flagError(wrong)
	case errors.As(err, &wrongInput{}) || errors.Is(err, peer.ErrBadLink):
		code = exitWrongInput
	}
	fmt.Fprintf(stderr, "shoal: %s\n", oneLine(err.Error()))
	return code
}

// oneLine keeps what an error says, but not its line breaks and other control characters.
func oneLine(text string) string {
	var parts []string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(strings.Map(func(r rune) rune {
			if r < ' ' || r == 0x7f {
				return ' '
			}
			return r
		}, line))
		if line != "" {
			parts = append(parts, line)
		}
	}
	return strings.Join(parts, "; ")
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "shoal",
		Short: "Train one neural network on many devices",
		Long: "Shoal trains one neural network on many devices, fully sharded: each peer holds\n" +
			"a part of the model, and the result does not depend on how many peers there are.",
		Example: "  shoal testnet                        all of it on this machine\n" +
			"  shoal init > run.yaml                a run file to start from\n" +
			"  shoal plan run.yaml --peers 3        what it needs, and how fast it will be\n" +
			"  shoal up run.yaml --peers 3          start a run; prints a link\n" +
			"  shoal join LINK                      join it from another terminal or machine\n" +
			"  shoal join LINK --memory 4GiB        its share follows its memory\n" +
			"  shoal status                         how it goes, and what it can survive\n" +
			"  source <(shoal completion bash)      let bash complete it; so do zsh and fish",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.ArbitraryArgs,
		RunE:          onlyCommands,
	}
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	root.SetUsageTemplate(usage)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return wrongInput{fmt.Errorf("%w, see `%s --help`", badFlag(err), cmd.CommandPath())}
	})
	root.PersistentPreRun = func(*cobra.Command, []string) { a.log = a.logger() }
	root.PersistentFlags().BoolVar(&a.verbose, "verbose", false, "log what happens inside on stderr")
	root.AddCommand(a.initCommand(), a.upCommand(), a.joinCommand(), a.testnetCommand(), a.sampleCommand(), a.evalCommand(), a.checkpointCommand(),
		a.planCommand(), a.statusCommand(), a.recoverCommand(), a.benchCommand(), a.tabCommand(), &cobra.Command{
			Use:   "version",
			Short: "Print the version",
			Args:  takes(0, ""),
			Run:   func(*cobra.Command, []string) { fmt.Fprintln(a.stdout, version.Long()) },
		})
	return root
}

// logger is nil unless the user wants a log. What libraries log goes the same way, in the whole process.
func (a *app) logger() *slog.Logger {
	if !a.verbose {
		peer.LogTo(slog.DiscardHandler)
		log.SetOutput(io.Discard)
		return nil
	}
	h := slog.NewTextHandler(a.stderr, &slog.HandlerOptions{Level: slog.LevelDebug})
	peer.LogTo(h)
	return slog.New(h)
}

// usage is the text behind a command's description: examples first.
const usage = `{{if .HasExample}}Examples:
{{.Example}}

{{end}}Usage:
  {{if .HasAvailableSubCommands}}{{.CommandPath}} COMMAND{{else}}{{.UseLine}}{{end}}
{{- if .HasAvailableSubCommands}}

Commands:
{{- range .Commands}}{{if .IsAvailableCommand}}
  {{rpad .Name .NamePadding}} {{.Short}}{{end}}{{end}}

shoal help COMMAND tells the flags of a command.
{{- end}}
{{- if .HasAvailableLocalFlags}}

Flags:
{{.LocalFlags.FlagUsagesWrapped 80 | trimTrailingWhitespaces}}
{{- end}}
{{- if .HasAvailableInheritedFlags}}

With every command:
{{.InheritedFlags.FlagUsagesWrapped 80 | trimTrailingWhitespaces}}
{{- end}}
`

// onlyCommands is RunE of a command that is nothing without one of its own commands.
func onlyCommands(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		_, name, _ := strings.Cut(cmd.CommandPath(), " ")
		return wrongInput{fmt.Errorf("unknown command %q, see `%s`", args[0], strings.TrimSpace("shoal help "+name))}
	}
	return cmd.Help()
}

// takes refuses any other number of arguments than n.
func takes(n int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < n:
			return wrongInput{fmt.Errorf("`%s` needs %s, see `%[1]s --help`", cmd.CommandPath(), what)}
		case len(args) > n:
			return wrongInput{fmt.Errorf("`%s` does not take %q, see `%[1]s --help`", cmd.CommandPath(), args[n])}
		}
		return nil
	}
}
