// A compute worker. It never returns to its event loop if memory is shared: worker 0 then takes the commands from the ring, one
// by one, and the others, its helpers, take parts of each as it does; a command is done when all its parts are. So a helper that
// comes late, since the machine has other things to do, delays nobody by more than a part.

import {
  ARGS, ARRIVED, CANCELLED, CHUNK, FAULT, FENCE, FIRST, HEAD, NONE, OP, PARTS, RING, scratch, SLOT, SLOTS, STAGE, TICKET, UPLOAD,
} from "./layout.mjs";

const port = globalThis.process?.versions?.node === undefined ? globalThis : (await import("node:worker_threads")).parentPort;
const listen = (f) => (port.on ? port.on("message", f) : (port.onmessage = (e) => f(e.data)));
const forget = (f) => (port.off ? port.off("message", f) : (port.onmessage = null));

listen(function first({module, ops, pages, memory, index}) {
  forget(first);
  let serve;
  try {
    const shared = memory !== undefined;
    memory ??= new WebAssembly.Memory({initial: pages, maximum: pages});
    const run = load(module, ops, memory, index);
    const words = new Int32Array(memory.buffer);
    const bytes = new Uint8Array(memory.buffer);
    if (!shared) serveMessages(run, words, bytes);
    else serve = index === 0 ? () => lead(run, words, bytes) : () => help(run, words);
    port.postMessage({ready: true});
  } catch (failed) {
    port.postMessage({failed});
  }
  serve?.();
});

// load is the kernels' functions by number, on memory of this worker's own.
function load(module, ops, memory, index) {
  const {exports} = new WebAssembly.Instance(module, {env: {memory}});
  const {address, length} = scratch(index);
  exports.init(address, length);
  return ops.map((name) => exports[name] ?? missing(name));
}

function missing(name) {
  throw new Error(`the kernels have no ${name}: the files in /kernel/ are of different versions`);
}

// lead does the commands of the ring.
function lead(run, words, bytes) {
  for (let seq = 0; ; seq = (seq + 1) | 0) {
    change(words, HEAD, seq);
    const address = RING + (seq & (SLOTS - 1)) * SLOT;
    const at = address >> 2;
    switch (words[at + OP]) {
      case FENCE:
        port.postMessage({done: (seq + 1) | 0, fault: Atomics.load(words, FAULT)});
        break;
      case UPLOAD: {
        const from = STAGE + words[at + ARGS + 1] * CHUNK;
        bytes.copyWithin(words[at + ARGS] >>> 0, from, from + words[at + ARGS + 2]);
        break;
      }
      default: {
        const parts = words[at + PARTS];
        if (parts === 1) {
          part(run, words, address, 0);
          break;
        }
        Atomics.store(words, ARRIVED, 0);
        Atomics.store(words, TICKET, seq << 8);
        Atomics.notify(words, TICKET);
        take(run, words);
        for (let n; (n = Atomics.load(words, ARRIVED)) !== parts;) change(words, ARRIVED, n);
        Atomics.store(words, TICKET, (seq << 8) | NONE);
      }
    }
  }
}

// help takes parts of every command that has some.
function help(run, words) {
  for (;;) change(words, TICKET, take(run, words));
}

// take does parts of the command that runs until all are taken, and returns the ticket that it has seen then. Only while all of a
// command's parts are not done may its words be read, and a ticket that was taken is such a part; whoever has read something else
// finds that the ticket has changed.
function take(run, words) {
  for (;;) {
    const ticket = Atomics.load(words, TICKET);
    const address = RING + ((ticket >>> 8) & (SLOTS - 1)) * SLOT;
    const next = ticket & 255;
    if (next === NONE || next >= Atomics.load(words, (address >> 2) + PARTS)) return ticket;
    if (Atomics.compareExchange(words, TICKET, ticket, ticket + 1) !== ticket) continue;
    part(run, words, address, next);
    Atomics.add(words, ARRIVED, 1);
    Atomics.notify(words, ARRIVED);
  }
}

// part does a part of the command at address. After a fault nothing is computed any more, as after a cancel.
function part(run, words, address, index) {
  if (Atomics.load(words, CANCELLED) !== 0) return;
  const at = address >> 2;
  try {
    run[words[at + OP] - FIRST](address + ARGS * 4, index, words[at + PARTS]);
  } catch {
    Atomics.store(words, FAULT, 1 + words[at + OP]);
    Atomics.store(words, CANCELLED, 1);
  }
}

// change returns once words[at] is not seen. The next op mostly follows within microseconds, in which falling asleep and waking
// up again would take longer.
const SPIN = 4000;
function change(words, at, seen) {
  for (let i = 0; i < SPIN; i++) if (Atomics.load(words, at) !== seen) return;
  while (Atomics.load(words, at) === seen) Atomics.wait(words, at, seen); // a call that wakes us may come late
}

// serveMessages does the commands that come in messages. Between two of them it looks for further messages every few
// milliseconds, so that one that cancels is heard. A turn ends by a message to itself (Node would deliver a thousand such before
// any other: there it is an immediate), and nothing is computed in one before which others have come, since engines may deliver one
// of each in turn.
const TURN = 2; // ms
function serveMessages(run, words, bytes) {
  const queue = []; // commands, as bytes
  const chunks = []; // what UPLOADs that are in the queue bring
  let seq = 0;
  const channel = new MessageChannel();
  const again = () => (globalThis.setImmediate ? setImmediate(turn) : channel.port2.postMessage(0));
  channel.port1.onmessage = turn;
  let working = false; // a turn will come
  let heard = false; // a message, since the last turn

  listen((message) => {
    heard = true;
    if (message.cancel) {
      words[CANCELLED] = 1;
      return;
    }
    for (const [chunk, b] of message.chunks) chunks[chunk] = b;
    for (let i = 0; i < message.commands.length; i += SLOT) queue.push(message.commands.subarray(i, i + SLOT));
    if (!working) again();
    working = true;
  });

  function turn() {
    if (!heard) work();
    heard = false;
    working = queue.length > 0;
    if (working) again();
  }

  function work() {
    const end = performance.now() + TURN;
    while (queue.length > 0 && performance.now() < end) command(queue.shift());
  }

  function command(c) {
    bytes.set(c, RING);
    seq = (seq + 1) | 0;
    const at = RING >> 2;
    const address = words[at + ARGS] >>> 0;
    switch (words[at + OP]) {
      case FENCE: {
        const read = bytes.slice(address, address + words[at + ARGS + 1]);
        port.postMessage({done: seq, fault: words[FAULT], address, bytes: read}, [read.buffer]);
        break;
      }
      case UPLOAD: {
        const chunk = words[at + ARGS + 1];
        bytes.set(chunks[chunk], address);
        chunks[chunk] = null;
        break;
      }
      default:
        part(run, words, RING, 0);
    }
  }
}
