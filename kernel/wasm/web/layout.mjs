// Where things lie in the memory of the compute workers, and what the words of a command mean. ../queue_js.go writes the
// commands. The kernels have nothing of their own in the memory.

export const PAGE = 65536; // bytes of a page of WebAssembly memory

// In bytes, from the beginning of the memory:
const CONTROL = 0;
export const RING = CONTROL + 4096; // the commands that were handed over, shared memory only
export const SLOT = 128; // bytes of a command
export const SLOTS = 1024; // commands in the ring, a power of two
export const STAGE = RING + SLOT * SLOTS; // bytes on their way up, shared memory only
export const CHUNK = 1 << 17; // bytes that cross over at once
export const CHUNKS = 32;
const WORKERS = STAGE + CHUNK * CHUNKS;
const SCRATCH = 1 << 20; // a worker's own

// Words of a command: which op, in how many parts, then its arguments.
export const OP = 0;
export const PARTS = 1; // less than 255
export const ARGS = 2;
export const FENCE = 0; // bytes to be read then (address, length), what was fenced (the number of the command)
export const UPLOAD = 1; // where to (address), which chunk, length in bytes
export const FIRST = 2; // the first op of the kernels

// Words in control, each in a cache line of its own.
const line = (n) => (CONTROL >> 2) + n * 32;
export const HEAD = line(0); // commands handed over, modulo 2^32
export const TICKET = line(1); // the command that runs, modulo 2^24, and in the lowest byte its next part
export const NONE = 255; // as the next part: there is none
export const ARRIVED = line(2); // parts of it that are done
export const CANCELLED = line(3); // not 0: ops do nothing
export const FAULT = line(4); // 1 + the op that failed
export const MOST = 24; // workers

// scratch is the memory that worker i has for itself.
export const scratch = (i) => ({address: WORKERS + i * SCRATCH, length: SCRATCH});

// arena is where tensors begin.
export const arena = (workers) => scratch(workers).address;
