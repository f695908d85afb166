// Command wasm is the peer that runs in a browser's worker, or in Node: package shoal behind messages. web/peer.mjs and
// web/shoal-peer.mjs start it.
//
// Before they do, they set globalThis.shoalPeer.post, a function that takes a message as JSON. Once the program runs, it
// has set globalThis.shoalPeer.receive, which does the same in the other direction. docs/browser.md lists the messages.
package main

import (
	"encoding/json"
	"syscall/js"
	"time"

	"shoal"
)

// commandsWaiting is how many commands wait at most: more than anybody clicks. Further ones are lost.
const commandsWaiting = 64

func main() {
	bridge := js.Global().Get("shoalPeer")
	post := func(message any) {
		text, err := json.Marshal(message)
		if err == nil { // plain fields only: it can't fail
			bridge.Call("post", string(text))
		}
	}
	commands := make(chan command, commandsWaiting)
	receive := js.FuncOf(func(_ js.Value, args []js.Value) any {
		var c command
		if len(args) != 1 || args[0].Type() != js.TypeString || json.Unmarshal([]byte(args[0].String()), &c) != nil {
			return nil
		}
		select {
		case commands <- c:
		default: // a callback must not wait
		}
		return nil
	})
	defer receive.Release()
	bridge.Set("receive", receive)
	post(stateMessage{Type: "ready"})
	first := <-commands
	if first.Type == "child" {
		child(post, commands, first)
		return
	}
	v := &volunteer{post: post, commands: commands, shared: shared(), run: shoal.Run, after: time.After}
	v.serve(first)
}

// shared says whether workers can share memory here: at secure addresses that isolate themselves, and in Node.
func shared() bool {
	return js.Global().Get("crossOriginIsolated").Truthy() || js.Global().Get("process").Truthy()
}
