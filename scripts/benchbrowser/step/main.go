//go:build js

// Command step trains benchbrowser's model in a Worker, on one compute worker: shoalTurn(ms) resolves to the milliseconds that
// a step took.
package main

import (
	"syscall/js"
	"time"

	"shoal/kernel/wasm"
	"shoal/scripts/benchbrowser/model"
	"shoal/scripts/internal/trainer"
)

func main() {
	ready := js.Global().Get("shoalReady")
	t, err := start()
	if err != nil {
		ready.Invoke(err.Error())
		return
	}
	turns := make(chan turn)
	js.Global().Set("shoalTurn", js.FuncOf(func(_ js.Value, args []js.Value) any {
		slice := time.Duration(args[0].Float() * float64(time.Millisecond))
		return js.Global().Get("Promise").New(js.FuncOf(func(_ js.Value, settle []js.Value) any {
			go func() { turns <- turn{slice, settle[0], settle[1]} }()
			return nil
		}))
	}))
	ready.Invoke()
	for u := range turns {
		if seconds, err := t.Turn(u.slice); err != nil {
			u.fail.Invoke(err.Error())
		} else {
			u.done.Invoke(1000 * seconds)
		}
	}
}

// turn is one that the page has asked for.
type turn struct {
	slice      time.Duration
	done, fail js.Value
}

func start() (*trainer.Trainer, error) {
	dev, err := wasm.New(wasm.Options{Workers: 1})
	if err != nil {
		return nil, err
	}
	return model.New(dev)
}
