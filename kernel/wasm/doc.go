// Package wasm is the kernel.Device of a browser tab, and of Node.
//
// Tensors lie in the memory of compute workers, which are Workers beside the one in which the Go program runs. They run kernels
// made from C (kern/, generate.sh): SIMD, and fused by relaxed SIMD where the browser has it, else, slower, by float64. Both
// give the bits of kernel/ref. Where memory can be shared (a page with COOP and COEP, or Node) there may be many workers: an op
// is cut into parts, one for each. Elsewhere there is one.
//
// An op of the Device is a command in a queue (queue_js.go): the call returns at once. Go never blocks: Sync and Download
// wait for a message from the workers, and other goroutines run meanwhile. So does a program that does nothing but compute
// keep its connections.
//
// On the JavaScript side web/compute.mjs starts the workers and hands them what Go gives it, web/worker.mjs is such a worker,
// and web/layout.mjs says where things lie in their memory. Whoever starts the Go program sets
//
//	import {openCompute} from "/kernel/web/compute.mjs";
//	globalThis.shoalCompute = openCompute;
//
// and serves Files under /kernel/. The memory is of one size from the beginning: the arena (arena.go) shares it out.
package wasm
