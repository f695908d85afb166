package safetensors_test

import (
	"encoding/binary"
	"fmt"
	"log"
	"math"
	"os"
	"path/filepath"

	"shoal/internal/safetensors"
)

func Example() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "model.safetensors")

	w, err := safetensors.Create(path, []safetensors.Tensor{{Name: "bias", DType: safetensors.F32, Shape: []int{3}}}, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer w.Abort()
	for i, v := range []float32{0.5, 1, -2} {
		if err := w.WriteAt("bias", i, binary.LittleEndian.AppendUint32(nil, math.Float32bits(v))); err != nil {
			log.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		log.Fatal(err)
	}

	f, err := safetensors.Open(path)
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	last := make([]byte, 4)
	if err := f.ReadAt("bias", 2, last); err != nil {
		log.Fatal(err)
	}
	fmt.Println(f.Tensors(), math.Float32frombits(binary.LittleEndian.Uint32(last)))
	// Output: [{bias F32 [3]}] -2
}
