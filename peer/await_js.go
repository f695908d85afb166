package peer

import (
	"context"
	"errors"
	"sync"
	"syscall/js"
)

// [Note: calls from JavaScript]
//
// A js.Func lives until it is released, and JavaScript may call it late or never. So there is one for the whole process,
// onCall. What JavaScript gets to call is onCall bound to a number: the binding is JavaScript's own garbage. Here the number
// leads to a Go function, until that is taken out again.

type callbacks struct {
	mu   sync.Mutex
	last int
	at   map[int]func(js.Value)
}

var calls = callbacks{at: map[int]func(js.Value){}}

// onCall calls the function of the number that is its first argument with the second one.
var onCall = sync.OnceValue(func() js.Func {
	return js.FuncOf(func(_ js.Value, args []js.Value) any {
		var arg js.Value
		if len(args) > 1 {
			arg = args[1]
		}
		calls.mu.Lock()
		f := calls.at[args[0].Int()]
		calls.mu.Unlock()
		if f != nil {
			f(arg)
		}
		return nil
	})
})

// add is the number under which f, which must not block, is called. remove takes it out.
func (c *callbacks) add(f func(arg js.Value)) (number int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last++
	c.at[c.last] = f
	return c.last
}

func (c *callbacks) remove(numbers ...int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range numbers {
		delete(c.at, n)
	}
}

// pending is how many functions JavaScript may still call.
func (c *callbacks) pending() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.at)
}

// function is the JavaScript function that calls what has that number.
func function(number int) js.Value { return onCall().Call("bind", js.Null(), number) }

// settled is what became of a promise.
type settled struct {
	value js.Value
	err   error // not nil if it was rejected, with value
}

// then has f called, which must not block, with what becomes of a promise, unless forget is called before.
func then(promise js.Value, f func(settled)) (forget func()) {
	var yes, no int
	forget = func() { calls.remove(yes, no) }
	end := func(s settled) {
		forget()
		f(s)
	}
	yes = calls.add(func(v js.Value) { end(settled{value: v}) })
	no = calls.add(func(v js.Value) { end(settled{v, jsError(v)}) })
	promise.Call("then", function(yes), function(no))
	return forget
}

// soon has f called, which must not block, as a task of its own: once what is under way is done, and what follows from it.
func soon(f func()) {
	var number int
	number = calls.add(func(js.Value) {
		calls.remove(number)
		f()
	})
	js.Global().Call("setTimeout", function(number), 0)
}

// await waits for a promise. When ctx ends first, nobody hears of what becomes of it.
func await(ctx context.Context, promise js.Value) (js.Value, error) {
	c := make(chan settled, 1)
	forget := then(promise, func(s settled) { c <- s })
	select {
	case s := <-c:
		return s.value, s.err
	case <-ctx.Done():
		forget()
		return js.Value{}, context.Cause(ctx)
	}
}

// ignore keeps the browser from complaining that nobody looks at how a promise ends.
func ignore(promise js.Value) {
	promise.Call("catch", js.Global().Get("Boolean")) // any function that does nothing
}

// jsError is what JavaScript has thrown, as an error of one line.
func jsError(v js.Value) error {
	if v.Type() == js.TypeObject {
		if m := v.Get("message"); m.Type() == js.TypeString && m.String() != "" {
			return errors.New(oneLine(m.String()))
		}
	}
	return errors.New(oneLine(js.Global().Call("String", v).String()))
}

// try calls f and returns what JavaScript throws in it.
func try(f func()) (err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case js.Error:
			err = jsError(r.Value)
		default:
			panic(r)
		}
	}()
	f()
	return nil
}

// uint8Array is the constructor.
var uint8Array = sync.OnceValue(func() js.Value { return js.Global().Get("Uint8Array") })
