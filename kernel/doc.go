// Package kernel is the contract between models and the devices that compute them: Device, Buffer and the op list.
//
// It is not an implementation. kernel/ref is the scalar specification; kernel/cpu (and later kernel/wasm,
// kernel/cuda) are its twins, which give the same bits; kernel/kerneltest is the one suite that all of them pass.
// kernel/host is the memory of devices that compute in Go's. The package knows nothing of networks, shards or models.
//
// Checked is the front of every device: it turns wrong calls into errors. Fingerprint proves which bits a device gives.
package kernel
