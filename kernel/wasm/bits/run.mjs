// node run.mjs MODULE WORKERS SCRATCH runs ops for bits_test.go: requests come in on stdin, answers go out on stdout, each a
// little-endian length, so many bytes of JSON, and bytes. With 0 workers the parts of an op run in turn on this thread, the
// last one first, else each on its worker, which shares the memory.

import {readFileSync, readSync, writeSync} from "node:fs";
import {setFlagsFromString} from "node:v8";
import {Worker, isMainThread, workerData} from "node:worker_threads";

const ARGS = 64; // where an op's arguments lie
const SCRATCH = 1 << 16; // where the workers' scratch begins,
const STEP = (1 << 20) + 64; // so far apart, with a gap between them;
const BUFFERS = SCRATCH + 4 * STEP; // there are up to 4
const ROOM = 32 << 20;
const GAP = 0xa5; // what is in gaps
const idle = new Int32Array(new SharedArrayBuffer(4));

setFlagsFromString("--experimental-wasm-relaxed-simd"); // for Node 20

if (isMainThread) main();
else work();

function open(module, memory, index, scratch) {
  const {exports} = new WebAssembly.Instance(module, {env: {memory}});
  exports.init(SCRATCH + index * STEP, scratch);
  return exports;
}

// A worker waits for control[0] to change, runs op control[1] (an index of names) in its part, and counts control[3] up.
function work() {
  const {module, memory, index, workers, scratch, control, names} = workerData;
  const exports = open(module, memory, index, scratch);
  Atomics.add(control, 3, 1);
  Atomics.notify(control, 3);
  for (let turn = 0; ; turn++) {
    Atomics.wait(control, 0, turn);
    try {
      exports[names[Atomics.load(control, 1)]](ARGS, index, workers);
    } catch {
      Atomics.store(control, 2, 1);
    }
    Atomics.add(control, 3, 1);
    Atomics.notify(control, 3);
  }
}

function main() {
  const [path, workers, scratch] = [process.argv[2], Number(process.argv[3]), Number(process.argv[4])];
  const module = new WebAssembly.Module(readFileSync(path));
  const shared = !path.includes("unshared");
  const memory = new WebAssembly.Memory({initial: ROOM >> 16, maximum: ROOM >> 16, shared});
  const bytes = new Uint8Array(memory.buffer);
  bytes.fill(GAP);
  const exports = open(module, memory, 0, scratch);
  const names = Object.keys(exports);
  const control = new Int32Array(new SharedArrayBuffer(16));
  const arrived = () => {
    for (let n; (n = Atomics.load(control, 3)) < workers; ) Atomics.wait(control, 3, n);
    Atomics.store(control, 3, 0);
  };
  if (workers > 0) {
    for (let index = 0; index < workers; index++) {
      new Worker(new URL(import.meta.url), {workerData: {module, memory, index, workers, scratch, control, names}});
    }
    arrived();
  }

  function run(op, parts) {
    if (workers === 0) {
      for (let part = parts - 1; part >= 0; part--) exports[op](ARGS, part, parts);
      return;
    }
    Atomics.store(control, 1, names.indexOf(op));
    Atomics.add(control, 0, 1);
    Atomics.notify(control, 0);
    arrived();
    if (Atomics.exchange(control, 2, 0)) throw new Error("a worker has failed");
  }

  // answer runs one request: op with args, on regions ([address, bytes]) that hold the bytes after it, so many times.
  function answer({op, args, parts, regions, times}) {
    if (!(op in exports)) throw new Error(`no such op: ${op}`);
    if (op === "fuses") return {result: exports.fuses()};
    new Uint32Array(memory.buffer, ARGS, args.length).set(args);
    for (const [at, n] of regions) read(bytes.subarray(at, at + n));
    let start = performance.now();
    for (let i = 0; i < times; i++) run(op, parts);
    const ns = (performance.now() - start) * 1e6;
    bytes.fill(GAP, ARGS, ARGS + 4 * args.length);
    gaps(regions);
    return {ns};
  }

  // gaps fails if anything was written where nothing is.
  function gaps(regions) {
    const areas = Array.from({length: Math.max(workers, 1)}, (_, i) => [SCRATCH + i * STEP, scratch]);
    const unused = [SCRATCH + areas.length * STEP, BUFFERS - SCRATCH - areas.length * STEP];
    const used = [...areas, unused, ...regions].sort((a, b) => a[0] - b[0]);
    let from = 0;
    for (const [at, n] of [...used, [used.at(-1)[0] + used.at(-1)[1] + 4096, 0]]) {
      for (let i = from; i < at; i++) if (bytes[i] !== GAP) throw new Error(`byte ${i}, which belongs to nobody, was written`);
      from = at + n;
    }
  }

  const length = new DataView(new ArrayBuffer(4));
  for (;;) {
    read(new Uint8Array(length.buffer));
    const request = new Uint8Array(length.getUint32(0, true));
    read(request);
    const head = JSON.parse(new TextDecoder().decode(request));
    let reply;
    try {
      reply = answer(head);
    } catch (e) {
      reply = {error: String(e.message ?? e)};
    }
    const text = new TextEncoder().encode(JSON.stringify(reply));
    length.setUint32(0, text.length, true);
    write(new Uint8Array(length.buffer));
    write(text);
    if (reply.error === undefined) for (const [at, n] of head.regions) write(bytes.subarray(at, at + n));
    for (const [at, n] of head.regions) bytes.fill(GAP, at, at + n);
  }
}

// read fills b from stdin, or ends the program.
function read(b) {
  for (let at = 0; at < b.length; ) {
    const n = soon(() => readSync(0, b, at, b.length - at));
    if (n === 0) process.exit(0);
    at += n;
  }
}

function write(b) {
  for (let at = 0; at < b.length; ) at += soon(() => writeSync(1, b, at, b.length - at));
}

// soon calls f again while a pipe isn't ready: with workers Node makes its pipes ones that don't wait.
function soon(f) {
  for (;;) {
    try {
      return f();
    } catch (e) {
      if (e.code !== "EAGAIN") throw e;
      Atomics.wait(idle, 0, 0, 0.2);
    }
  }
}
