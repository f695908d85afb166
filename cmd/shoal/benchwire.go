package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"shoal/internal/version"
	"shoal/internal/wirebench"
	"shoal/peer"
)

func (a *app) benchWireCommand() *cobra.Command {
	var listen []string
	var asJSON, child bool
	cmd := &cobra.Command{
		Use:   "wire [ADDRESS]",
		Short: "Measure what the link between two peers gives",
		Long: "Measure a connection as peers have them: round trips, throughput each way and\n" +
			"both ways at once, what that costs, and whether packing pays on it. Without an\n" +
			"address both ends are processes on this machine. With --listen this is the other\n" +
			"end: it prints the address to measure from another machine, and ends when that\n" +
			"is done.",
		Example: "  shoal bench wire\n" +
			"  shoal bench wire --listen :4001     on one machine; prints an address\n" +
			"  shoal bench wire ADDRESS            on another one",
		Args: func(cmd *cobra.Command, args []string) error { return takes(min(len(args), 1), "")(cmd, args) },
	}
	f := cmd.Flags()
	f.StringSliceVar(&listen, "listen", nil, "be the other end, at this `address`: host:port or multiaddr")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	f.BoolVar(&child, "child", false, "with --listen: end with stdin")
	f.MarkHidden("child")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		switch {
		case f.Changed("listen") && len(args) > 0:
			return wrongInput{errors.New("--listen is for the end that does not measure: leave the address away")}
		case f.Changed("listen"):
			return a.benchWireListen(ctx, listen, asJSON, child)
		case len(args) > 0:
			return a.benchWire(ctx, args[0], asJSON)
		}
		return a.benchWireHere(ctx, asJSON)
	}
	return cmd
}

// wireHost is a host as a run has it.
func (a *app) wireHost(ctx context.Context, listen []string) (*peer.Host, error) {
	return peer.New(ctx, peer.Config{Listen: listen, Version: version.Version, Log: a.log})
}

// wireAddresses is what the end that listens prints as JSON.
type wireAddresses struct {
	Addresses []string `json:"addresses"`
}

// benchWireListen is the other end until somebody has measured.
func (a *app) benchWireListen(ctx context.Context, listen []string, asJSON, child bool) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	h, err := a.wireHost(ctx, listen)
	if err != nil {
		if errors.Is(err, peer.ErrPortInUse) {
			return err
		}
		return wrongInput{fmt.Errorf("--listen: %w", err)}
	}
	defer h.Close()
	s := wirebench.NewServer()
	h.Handle(wirebench.Protocol, func(_ string, c net.Conn) {
		if err := s.Serve(c); err != nil && a.verbose {
			fmt.Fprintln(a.stderr, err)
		}
	})
	if err := a.printWireAddresses(h, asJSON); err != nil {
		return err
	}
	if child {
		go func() { // ends with stdin or with the process
			io.Copy(io.Discard, a.stdin)
			cancel(errInterrupted)
		}()
	}
	select {
	case <-s.Done():
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// printWireAddresses prints where another machine may measure: by the transport that peers try first, and not on loopback, if
// there is such an address. JSON has all.
func (a *app) printWireAddresses(h *peer.Host, asJSON bool) error {
	var all wireAddresses
	for _, addr := range h.Addrs() {
		all.Addresses = append(all.Addresses, peer.JoinAddr(addr, h.Self()))
	}
	if asJSON {
		return json.NewEncoder(a.stdout).Encode(all)
	}
	shown := preferred(all.Addresses, func(s string) bool { return strings.Contains(s, "/tcp/") && !strings.Contains(s, "/ws") })
	shown = preferred(shown, func(s string) bool { return !strings.HasPrefix(s, "/ip4/127.") && !strings.HasPrefix(s, "/ip6/::1/") })
	var b strings.Builder
	b.WriteString("Waiting for the other end, which one of these starts on another machine:\n\n")
	for _, addr := range shown {
		fmt.Fprintf(&b, "  shoal bench wire %s\n", addr)
	}
	_, err := io.WriteString(a.stdout, b.String())
	return err
}

// preferred are those of list that are good, or all if none is.
func preferred(list []string, good func(string) bool) []string {
	some := slices.DeleteFunc(slices.Clone(list), func(s string) bool { return !good(s) })
	if len(some) == 0 {
		return list
	}
	return some
}

// benchWireHere measures against a process of its own.
func (a *app) benchWireHere(ctx context.Context, asJSON bool) (err error) {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, self, "bench", "wire", "--listen", "/ip4/127.0.0.1/tcp/0", "--json", "--child")
	var said bytes.Buffer // read once it has ended
	cmd.Stderr = &said
	if a.verbose {
		cmd.Stderr = a.stderr
	}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	end := sync.OnceValue(func() error {
		stdin.Close()
		return cmd.Wait()
	})
	defer end()
	var other wireAddresses
	if err := json.NewDecoder(stdout).Decode(&other); err != nil {
		err = cmp.Or(end(), err)
		return fmt.Errorf("the process at the other end did not start: %w: %s", err, oneLine(said.String()))
	}
	return a.benchWire(ctx, other.Addresses[0], asJSON) // it listens at one
}

// benchWire measures.
func (a *app) benchWire(ctx context.Context, address string, asJSON bool) error {
	addr, id, err := peer.SplitAddr(address)
	if err != nil {
		return wrongInput{err}
	}
	h, err := a.wireHost(ctx, []string{"/ip4/127.0.0.1/tcp/0"}) // nobody has to reach it
	if err != nil {
		return err
	}
	defer h.Close()
	r, err := wirebench.Run(ctx, wirebench.Config{
		Open: func(ctx context.Context) (net.Conn, error) {
			return h.Open(ctx, id, []string{addr}, wirebench.Protocol)
		},
		Connection: func() string { return h.Connection(id) },
	})
	if err != nil {
		return err
	}
	if asJSON {
		e := json.NewEncoder(a.stdout)
		e.SetIndent("", "  ")
		return e.Encode(r)
	}
	return printWire(a.stdout, r)
}

// printWire is tables of at most 80 columns.
func printWire(w io.Writer, r *wirebench.Result) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: round trip %s, behind a bulk transfer %s\n\n", r.Connection, micros(r.RoundTrip.Idle), micros(r.RoundTrip.Behind))
	fmt.Fprintf(&b, "%-22s %10s %14s\n", "", "MB/s", "CPU s a GB")
	for _, row := range []struct {
		name string
		rate wirebench.Rate
	}{{"there", r.Put}, {"back", r.Get}, {"both ways at once", r.Both}} {
		fmt.Fprintf(&b, "%-22s %10.1f %14.2f\n", row.name, row.rate.MBS, row.rate.CPUPerGB)
	}
	fmt.Fprintf(&b, "\n%-22s %10s %14s %10s %12s %6s\n", "packing", "bytes", "left of them", "pack MB/s", "unpack MB/s", "pays")
	for _, c := range r.Packing {
		pays := "no"
		if c.Pays {
			pays = "yes"
		}
		fmt.Fprintf(&b, "%-22s %10d %14.2f %10.0f %12.0f %6s\n", c.Name, c.Width, c.Packed, c.Pack, c.Unpack, pays)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// micros shows a time in microseconds, or in larger units.
func micros(us float64) string {
	if us < 10_000 {
		return fmt.Sprintf("%.0f us", us)
	}
	return fmt.Sprintf("%.0f ms", us/1000)
}
