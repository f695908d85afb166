// Package kernel is the contract between models and the devices that compute them: Device, Buffer and the op list.
//
// It is not an implementation. kernel/ref is the scalar specification; kernel/cpu (and later kernel/wasm,
// kernel/cuda) are its twins, which give the same bits; kernel/kerneltest is the one suite that all of them pass. The
// package knows nothing of networks, shards or models.
package kernel
