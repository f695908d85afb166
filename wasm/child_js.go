package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"shoal"
	"shoal/testnet"
)

var errInterrupted = errors.New("interrupted")

// lines are texts that a tab says, as messages of a type.
type lines struct {
	post func(message any)
	kind string
}

func (l lines) Write(b []byte) (int, error) {
	l.post(textMessage{l.kind, string(b)})
	return len(b), nil
}

// child takes part in a run as testnet's child, whose standard input, output and error are messages.
func child(post func(any), commands <-chan command, first command) {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	complain := func(err error) {
		fmt.Fprintf(lines{post, "log"}, "shoal: %v\n", err)
		post(stateMessage{Type: "state", State: failed, Reason: err.Error()})
	}
	c, err := testnet.NewChild(lines{post, "output"}, first.Points)
	if err != nil {
		complain(err)
		return
	}
	defer c.Close()
	in, words := io.Pipe()
	defer in.Close()
	go c.Serve(in) // ends with words or in
	go func() {    // ends with the program
		for m := range commands {
			if m.Type != "input" {
				continue
			}
			if m.Text == "" {
				words.Close()
				cancel(errInterrupted)
				continue
			}
			if _, err := io.WriteString(words, m.Text); err != nil {
				return
			}
		}
	}()
	cfg := shoal.Config{Link: first.Link, Cores: first.Cores, Memory: first.Memory, Slow: first.Slow}
	c.Watch(&cfg)
	r, err := shoal.Run(ctx, cfg)
	if r != nil {
		err = errors.Join(err, c.Report(r))
	} else {
		c.Failed(err)
	}
	if err != nil && !errors.Is(context.Cause(ctx), errInterrupted) {
		complain(err)
		return
	}
	post(stateMessage{Type: "state", State: done})
}
