// Package safetensors reads and writes files of named tensors in the safetensors format, without ever holding a tensor.
//
// The format (github.com/huggingface/safetensors): 8 bytes with the header's length, little endian; the header, JSON
// that gives each tensor's dtype, shape and place in the data, filled up with spaces; the data, without holes.
//
//	w, err := safetensors.Create("model.safetensors", []safetensors.Tensor{{"wte.weight", safetensors.F32, []int{256, 64}}}, nil)
//	defer w.Abort()                         // does nothing after Close
//	err = w.WriteAt("wte.weight", 640, row) // from element 640 on, in any order, from any goroutine
//	err = w.Close()                         // the file is there now, and whole
//
//	f, err := safetensors.Open("model.safetensors")
//	defer f.Close()
//	err = f.ReadAt("wte.weight", 640, row)
//
// Values are bytes, little endian; what they mean is the caller's affair. A file is checked when it is opened: a header
// that lies about the file, a tensor that overlaps another one, and a hole between two are errors.
package safetensors
