// The compute workers of a peer, seen from the worker in which the peer's Go program runs (or from Node): openCompute starts
// them, ../device_js.go hands them commands. Nothing here ever blocks, and no view of the workers' memory goes to Go, so that
// close() lets go of all of it.

import {arena, CANCELLED, CHUNK, CHUNKS, HEAD, MOST, NONE, PAGE, RING, SLOT, SLOTS, STAGE, TICKET} from "./layout.mjs";

const node = globalThis.process?.versions?.node !== undefined;

// Modules of one function, which uses an instruction of SIMD, or of relaxed SIMD.
const header = [0, 0x61, 0x73, 0x6d, 1, 0, 0, 0, 1, 5, 1, 0x60, 0, 1, 0x7b, 3, 2, 1, 0];
const zero = [0x41, 0, 0xfd, 0x0f]; // i32.const 0, i8x16.splat
const simd = new Uint8Array([...header, 10, 8, 1, 6, 0, ...zero, 0x0b]);
const relaxed = new Uint8Array([...header, 10, 19, 1, 17, 0, ...zero, ...zero, ...zero, 0xfd, 0x85, 2, 0x0b]); // f32x4.relaxed_madd

// openCompute starts the workers; it is what Go finds as globalThis.shoalCompute.
//   workers, bytes  how many, and how much memory for tensors; where memory can't be shared there is one worker
//   ops             names of the kernels' functions, in the order of the commands' numbers
//   exact           true: kernels that use no relaxed SIMD, as where there is none
//   unshared        true: as where memory can't be shared
//   base            address of the folder with the kernels; the one above this file's if it is left out
// An error whose name is RangeError says that there isn't so much memory.
export async function openCompute({workers, bytes, ops, exact = false, unshared = false, base}) {
  if (!WebAssembly.validate(simd)) throw new Error("this browser has no WebAssembly SIMD: take a newer one");
  const shared = !unshared && (node || globalThis.crossOriginIsolated === true);
  workers = shared ? Math.min(workers, MOST) : 1;
  const start = arena(workers);
  const pages = Math.ceil((start + bytes) / PAGE);
  if (pages > 65536) throw new RangeError(`${bytes} bytes are more than WebAssembly can address`);
  const folder = new URL(base ?? "../", import.meta.url);
  const kind = !exact && WebAssembly.validate(relaxed) && (await fuses(folder)) ? "relaxed" : "simd";
  const module = await kernels(folder, kind, shared);
  const c = shared ? new Shared(await sharedMemory(pages)) : new Unshared();
  try {
    await c.start(workers, {module, ops, pages});
  } catch (e) {
    await c.close();
    throw e;
  }
  return {
    kind, shared, workers, arena: start, slots: SLOTS, chunk: CHUNK, chunks: CHUNKS,
    commands: c.commands, // where Go writes commands
    bounce: c.bounce, // through which bytes go up and down
    push: (n) => c.push(n), // hands over the first n commands
    put: (chunk, n) => c.put(chunk, n), // takes the first n bytes of bounce as those of a chunk, for a later command
    get: (address, n) => c.get(address, n), // makes bounce's first n bytes those of the memory at address, after a fence for them
    cancel: () => c.cancel(), // makes ops do nothing from now on
    listen: (report) => { c.report = report; }, // report(done, fault) at a fence, or report(0, 0, why) when a worker has died
    close: () => c.close(), // ends the workers
  };
}

// fuses says whether relaxed_madd rounds once here, as the kernels want it: an engine may also round twice.
function fuses(folder) {
  return keep("fuses", async () => {
    const module = await kernels(folder, "relaxed", false);
    const memory = new WebAssembly.Memory({initial: 1});
    return new WebAssembly.Instance(module, {env: {memory}}).exports.fuses() === 1;
  });
}

// sharedMemory waits for room: a memory whose workers were ended goes only when they are gone, which takes a moment.
async function sharedMemory(pages) {
  for (let pause = 50; ; pause *= 2) {
    try {
      return new WebAssembly.Memory({initial: pages, maximum: pages, shared: true});
    } catch (e) {
      if (!(e instanceof RangeError) || pause > 1600) throw e;
      await new Promise((resolve) => setTimeout(resolve, pause));
    }
  }
}

// What was fetched is kept: a peer that begins anew must not need the server, which may be gone.
const kept = new Map();

// keep is what make made of key the last time that it did not fail.
function keep(key, make) {
  if (!kept.has(key)) {
    const made = make();
    kept.set(key, made);
    made.catch(() => kept.delete(key));
  }
  return kept.get(key);
}

async function kernels(folder, kind, shared) {
  const url = new URL(`kernels-${kind}${shared ? "" : "-unshared"}.wasm`, folder);
  return keep(url.href, async () => {
    if (url.protocol === "file:") {
      const {readFile} = await import("node:fs/promises");
      return WebAssembly.compile(await readFile(url));
    }
    return WebAssembly.compile(await (await got(url)).arrayBuffer());
  });
}

async function got(url) {
  const r = await fetch(url).catch((e) => { throw new Error(`fetch ${url.href}: ${e.message}`); });
  if (!r.ok) throw new Error(`${url.href}: ${r.status} ${r.statusText}`);
  return r;
}

// script is the address of the workers' script: in a browser one in memory, with what it imports in it.
async function script() {
  const url = new URL("./worker.mjs", import.meta.url);
  if (url.protocol === "file:") return url;
  return keep(url.href, async () => {
    const [layout, worker] = await Promise.all(["./layout.mjs", "./worker.mjs"].map(async (name) => (await got(new URL(name, import.meta.url))).text()));
    const whole = layout.replace(/^export /gm, "") + worker.replace(/^import \{[^}]*\} from "\.\/layout\.mjs";$/m, "");
    return URL.createObjectURL(new Blob([whole], {type: "text/javascript"}));
  });
}

// Workers are what both kinds of memory share.
class Workers {
  commands = new Uint8Array(SLOT * SLOTS);
  bounce = new Uint8Array(CHUNK);
  report = null;
  #workers = [];

  // start resolves once all have answered that they are ready.
  async start(n, setup) {
    const ready = [];
    for (let index = 0; index < n; index++) {
      const w = await spawn(await script());
      this.#workers.push(w);
      ready.push(new Promise((resolve, reject) => {
        w.onmessage = ({data}) => {
          if (data.failed) reject(data.failed);
          else if (data.ready) resolve();
          else this.said(data);
        };
        w.onerror = (e) => {
          e.preventDefault?.();
          const why = `compute worker ${index}: ${e.message ?? "it could not be loaded"}`;
          reject(new Error(why));
          this.report?.(0, 0, why);
        };
      }));
      w.postMessage({...setup, memory: this.memory, index});
    }
    await Promise.all(ready);
  }

  // said takes in that a fence was passed.
  said({done, fault}) { this.report?.(done, fault); }

  post(message, transfer) { this.#workers[0].postMessage(message, transfer); }

  async close() {
    this.report = null;
    const workers = this.#workers;
    this.#workers = [];
    for (const w of workers) w.onmessage = w.onerror = null;
    await Promise.all(workers.map((w) => w.terminate()));
    this.memory = this.words = this.bytes = null;
  }
}

// Shared memory: commands go into a ring that the workers watch.
class Shared extends Workers {
  constructor(memory) {
    super();
    this.memory = memory;
    this.words = new Int32Array(this.memory.buffer);
    this.bytes = new Uint8Array(this.memory.buffer);
    this.words[TICKET] = NONE;
  }

  push(n) {
    const head = this.words[HEAD]; // written by us alone
    const at = head & (SLOTS - 1);
    const first = Math.min(n, SLOTS - at);
    this.bytes.set(this.commands.subarray(0, first * SLOT), RING + at * SLOT);
    this.bytes.set(this.commands.subarray(first * SLOT, n * SLOT), RING);
    Atomics.store(this.words, HEAD, (head + n) | 0);
    Atomics.notify(this.words, HEAD);
  }

  put(chunk, n) { this.bytes.set(this.bounce.subarray(0, n), STAGE + chunk * CHUNK); }

  get(address, n) { this.bounce.set(this.bytes.subarray(address, address + n)); }

  cancel() { if (this.words) Atomics.store(this.words, CANCELLED, 1); }
}

// Unshared memory: it belongs to the one worker, and everything goes in messages.
class Unshared extends Workers {
  #chunks = []; // bytes to go with the next commands
  #read = null; // what the last fence has brought
  #readAt = 0;

  push(n) {
    const commands = this.commands.slice(0, n * SLOT);
    const chunks = this.#chunks;
    this.#chunks = [];
    this.post({commands, chunks}, [commands.buffer, ...chunks.map(([, bytes]) => bytes.buffer)]);
  }

  put(chunk, n) { this.#chunks.push([chunk, this.bounce.slice(0, n)]); }

  said(message) {
    this.#read = message.bytes;
    this.#readAt = message.address;
    super.said(message);
  }

  get(address, n) {
    const at = address - this.#readAt;
    this.bounce.set(this.#read.subarray(at, at + n));
    if (at + n === this.#read.length) this.#read = null;
  }

  cancel() { this.post({cancel: true}); }
}

// spawn makes a Worker with the browser's interface, in Node too.
async function spawn(url) {
  if (!node) return new Worker(url, {type: "module"});
  const {Worker: Thread} = await import("node:worker_threads");
  const t = new Thread(url);
  const w = {
    onmessage: null,
    onerror: null,
    postMessage: (message, transfer) => t.postMessage(message, transfer),
    terminate: () => t.terminate(),
  };
  t.on("message", (data) => w.onmessage?.({data}));
  t.on("error", (e) => w.onerror?.(e));
  return w;
}
