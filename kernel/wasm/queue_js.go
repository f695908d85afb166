package wasm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"syscall/js"
)

// queue hands commands to the compute workers, which do them in order. Short ones are collected and cross over together: when
// there are some, or when the goroutine that makes them waits for something.
//
// Go learns what is done by fences, commands whose only effect is a message. There is at least one in each half of the ring of
// commands, so that nobody waits for room in vain.
type queue struct {
	fail    func(error)
	compute js.Value
	push    js.Value // see web/compute.mjs for these
	put     js.Value
	get     js.Value
	written js.Value // where commands go
	bounce  js.Value // through which bytes go
	report  js.Func

	slots, chunk int     // commands in the ring, bytes of a chunk
	chunks       []int64 // the command after which a chunk can be used again
	next         int     // the chunk whose turn it is

	issued, fenced, done int64         // commands that were made; up to the last fence; known to be done
	progress             chan struct{} // capacity 1: done has grown, or the workers have died
	dead                 bool          // no message comes any more
	cancelled            bool

	mu      sync.Mutex // for batch, which the flusher takes too
	batch   []byte     // commands that have not crossed over
	wake    chan struct{}
	flushed chan struct{} // closed when the flusher has ended
}

const (
	commandWords = 32
	commandBytes = 4 * commandWords
	batchBytes   = 16 * commandBytes
	headWords    = 2 // of a command: what, and in how many parts; its arguments follow
)

// command is what the workers are told, in 32-bit words (web/layout.mjs).
type command struct {
	words [commandWords]uint32
	n     int
	long  bool // takes so long that it is to begin at once
}

// What a command is, other than an op.
const (
	fence   = iota // bytes that will be read then: address, length
	upload         // to (address), from which chunk, bytes
	firstOp        // the first of opNames
)

func newCommand(what, parts int) command {
	return command{words: [commandWords]uint32{uint32(what), uint32(parts)}, n: headWords}
}

func (c command) with(words ...uint32) command {
	c.n += copy(c.words[c.n:], words)
	return c
}

// newQueue takes compute, what openCompute has made. fail takes in faults of the workers.
func newQueue(compute js.Value, fail func(error)) *queue {
	q := &queue{
		fail:    fail,
		compute: compute,
		push:    compute.Get("push"), put: compute.Get("put"), get: compute.Get("get"),
		written: compute.Get("commands"), bounce: compute.Get("bounce"),
		slots: compute.Get("slots").Int(), chunk: compute.Get("chunk").Int(),
		chunks:   make([]int64, compute.Get("chunks").Int()),
		progress: make(chan struct{}, 1),
		batch:    make([]byte, 0, batchBytes),
		wake:     make(chan struct{}, 1),
		flushed:  make(chan struct{}),
	}
	q.report = js.FuncOf(func(_ js.Value, args []js.Value) any {
		if len(args) > 2 {
			q.died(args[2].String())
		} else {
			q.heard(args[0].Int(), args[1].Int())
		}
		return nil
	})
	compute.Call("listen", q.report)
	go q.flushIdle()
	return q
}

// heard takes in that a fence was passed: done commands, modulo 2^32, and 1 + the op that has failed, or 0.
func (q *queue) heard(done, fault int) {
	if fault > 0 {
		q.fail(fmt.Errorf("kernel: %s has failed in a compute worker", opName(fault-1)))
	}
	q.done += int64(int32(uint32(done) - uint32(q.done)))
	q.signal()
}

// died takes in that no message will come any more.
func (q *queue) died(why string) {
	q.fail(errors.New("kernel: " + why))
	q.dead = true
	q.signal()
}

func (q *queue) signal() {
	select {
	case q.progress <- struct{}{}:
	default:
	}
}

// add puts c into the queue, when there is room.
func (q *queue) add(c command) {
	q.append(c)
	if q.issued-q.fenced >= int64(q.slots/2) {
		q.fence(0, 0)
	}
	for q.issued-q.done >= int64(q.slots)-1 && !q.dead { // there is a fence among these
		q.flush()
		<-q.progress
	}
}

// fence has the workers tell when they have come here; the n bytes from address on can be read then.
func (q *queue) fence(address uint32, n int) {
	q.append(newCommand(fence, 1).with(address, uint32(n)))
	q.fenced = q.issued
}

func (q *queue) append(c command) {
	q.issued++
	q.mu.Lock()
	for _, w := range c.words {
		q.batch = binary.LittleEndian.AppendUint32(q.batch, w)
	}
	n := len(q.batch)
	q.mu.Unlock()
	if n >= batchBytes || c.long {
		q.flush()
	} else if n == commandBytes {
		select {
		case q.wake <- struct{}{}:
		default:
		}
	}
}

func (q *queue) flush() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.batch) > 0 && !q.dead {
		js.CopyBytesToJS(q.written, q.batch)
		q.push.Invoke(len(q.batch) / commandBytes)
	}
	q.batch = q.batch[:0]
}

// flushIdle hands over what is there whenever the goroutine that makes commands waits. It ends with close.
func (q *queue) flushIdle() {
	defer close(q.flushed)
	for range q.wake {
		q.flush()
	}
}

// wait returns once the first n commands are done, or never will be.
func (q *queue) wait(n int64) {
	if q.done >= n {
		return
	}
	if q.fenced < n {
		q.fence(0, 0)
	}
	q.flush()
	for q.done < n && !q.dead {
		<-q.progress
	}
}

func (q *queue) sync() { q.wait(q.issued) }

// upload copies src to the memory at address, after all commands that are in the queue.
func (q *queue) upload(address uint32, src []byte) {
	for len(src) > 0 && !q.dead {
		n := min(len(src), q.chunk)
		if q.wait(q.chunks[q.next]); q.dead {
			return
		}
		js.CopyBytesToJS(q.bounce, src[:n])
		q.put.Invoke(q.next, n)
		q.add(newCommand(upload, 1).with(address, uint32(q.next), uint32(n)))
		q.chunks[q.next] = q.issued
		q.next = (q.next + 1) % len(q.chunks)
		address += uint32(n)
		src = src[n:]
	}
}

// download fills dst from the memory at address, after all commands.
func (q *queue) download(dst []byte, address uint32) {
	if len(dst) == 0 {
		q.sync()
		return
	}
	q.fence(address, len(dst))
	q.wait(q.issued)
	for len(dst) > 0 && !q.dead {
		n := min(len(dst), q.chunk)
		q.get.Invoke(address, n)
		js.CopyBytesToGo(dst[:n], q.bounce)
		address += uint32(n)
		dst = dst[n:]
	}
}

// cancel makes ops do nothing from now on. Any goroutine may call it.
func (q *queue) cancel() {
	if !q.cancelled && !q.dead {
		q.cancelled = true
		q.compute.Call("cancel")
	}
}

// close ends the workers.
func (q *queue) close() error {
	q.dead = true
	q.signal()
	close(q.wake)
	<-q.flushed
	_, err := await(q.compute.Call("close"))
	q.report.Release()
	q.compute, q.push, q.put, q.get, q.written, q.bounce = js.Null(), js.Null(), js.Null(), js.Null(), js.Null(), js.Null()
	return err
}
