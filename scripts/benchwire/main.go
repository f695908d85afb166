// Command benchwire compares the mesh's encrypted streams and collectives with plain TCP and gloo, in turn and in one run, and
// writes its tables into docs/bench.md. `make bench-wire` runs it, from the module's root, after it has made the Python
// environment. It fails if a target is missed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"time"

	"shoal/scripts/internal/page"
)

// Roles of this program's other processes, each its first argument.
const (
	roleMember = "member" // RANK ELEMENTS: of a collective
	roleServer = "server" // the other end of a stream, by TCP and by a host
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := role(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "benchwire:", err)
		os.Exit(1)
	}
}

// role does what this process is for.
func role(ctx context.Context) error {
	args := os.Args[1:]
	switch {
	case len(args) == 3 && args[0] == roleMember:
		rank, err := strconv.Atoi(args[1])
		elements, err2 := strconv.Atoi(args[2])
		if err := errors.Join(err, err2); err != nil {
			return err
		}
		return serveMember(ctx, os.Stdin, os.Stdout, rank, elements)
	case len(args) == 1 && args[0] == roleServer:
		return serveStreams(ctx, os.Stdin, os.Stdout)
	}
	return run(ctx)
}

func run(ctx context.Context) error {
	file := flag.String("page", "docs/bench.md", "the `file` that gets the tables, or - for none")
	python := flag.String("python", "build/venv-bench/bin/python", "the `program` that has PyTorch")
	o := &outcome{}
	flag.IntVar(&o.rounds, "rounds", 7, "how often each one's turn comes")
	flag.DurationVar(&o.slice, "slice", 500*time.Millisecond, "`time` of a stream's turn")
	flag.IntVar(&o.elements, "elements", 10_000_000, "of a collective, 4 bytes each")
	flag.Parse()
	if o.rounds < 1 || o.slice <= 0 || o.elements < ranks {
		return fmt.Errorf("-rounds %d, -slice %v, -elements %d: want at least 1, more than 0, and at least %d", o.rounds, o.slice, o.elements, ranks)
	}
	if err := o.measure(ctx, *python); err != nil {
		return err
	}
	text, missed := tables(o)
	os.Stdout.Write(text)
	if *file == "-" {
		return missed
	}
	return errors.Join(page.Write(*file, "make bench-wire", text), missed)
}

// ranks is how many processes a collective has.
const ranks = 4

// outcome is what was measured.
type outcome struct {
	rounds   int
	slice    time.Duration
	elements int
	torch    string // version

	members, gloo side // seconds of a collective
	near, far     pair // one stream, of this machine and on the long link
}

// side is one of those who do the same work. Its figures are by round.
type side struct {
	turn    func() (seconds float64, err error)
	seconds []float64
}

// pair is a stream between two peers, and plain TCP on the same link. Both move as many bytes.
type pair struct {
	shoal, tcp side
	bytes      int64
	cpu        []float64 // seconds for 10^9 bytes of shoal's, both ends together
	tcpCPU     []float64
	close      func() error
}

// settle is the pause after a turn, in which what it has left behind ends.
const settle = 20 * time.Millisecond

// measure has all sides take turns. Every other round they come in the opposite order.
func (o *outcome) measure(ctx context.Context, python string) (err error) {
	members, err := startMembers(ctx, ranks, o.elements)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, members.close()) }()
	gloo, version, err := startGloo(ctx, python, ranks, o.elements)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, gloo.close()) }()
	o.torch = version
	o.members.turn = func() (float64, error) { return members.turn(memberRound{}) }
	o.gloo.turn = func() (float64, error) { return gloo.turn(struct{}{}) }
	for _, p := range []struct {
		*pair
		link  link
		slice time.Duration
	}{{&o.near, link{}, o.slice}, {&o.far, longLink, o.slice + 20*longLink.delay}} {
		if err := p.pair.open(ctx, p.link, p.slice); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, p.pair.close()) }()
	}
	sides := []*side{&o.members, &o.gloo, &o.near.shoal, &o.near.tcp, &o.far.shoal, &o.far.tcp}
	for i := range o.rounds {
		fmt.Fprintf(os.Stderr, "round %d of %d\n", i+1, o.rounds)
		for _, s := range sides {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			x, err := s.turn()
			if err != nil {
				return err
			}
			s.seconds = append(s.seconds, x)
			time.Sleep(settle)
		}
		slices.Reverse(sides)
	}
	return nil
}
