package data

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// The idx format, as MNIST's files have it (https://yann.lecun.com/exdb/mnist/): two zero bytes, the type of the
// elements, the number of dimensions, each dimension as 4 bytes, big endian, and then the elements, row by row.

// mnistFiles are the files of a data set, as they are called when unpacked.
var mnistFiles = [...]string{"train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"}

// Places in mnistFiles.
const (
	trainImages = iota
	trainLabels
	testImages
	testLabels
)

// findIdx is the path of one of mnistFiles in a folder. Its name may have a dot before "idx", and end in ".gz".
func findIdx(folder, name string) (string, error) {
	st, err := os.Stat(folder)
	if err != nil {
		return "", fmt.Errorf("data: %w", err)
	}
	if !st.IsDir() {
		return "", fmt.Errorf("data: %s is no folder, mnist:DIR is one with %s and three other files", folder, name)
	}
	dotted := strings.Replace(name, "-idx", ".idx", 1)
	for _, n := range []string{name, dotted, name + ".gz", dotted + ".gz"} {
		path := filepath.Join(folder, n)
		switch _, err := os.Stat(path); {
		case err == nil:
			return path, nil
		case !errors.Is(err, fs.ErrNotExist):
			return "", fmt.Errorf("data: %w", err)
		}
	}
	return "", fmt.Errorf("data: %s: there is no %s, neither %s nor with .gz", folder, name, dotted)
}

// idxBytes is the type of elements that are unsigned bytes, the only one that MNIST has.
const idxBytes = 0x08

// idxHeader is the length in bytes of the header of a file with that many dimensions.
func idxHeader(dims int) int { return 4 + 4*dims }

// parseIdx reads the header of an idx file of size bytes, of which it has the first ones, and wants exactly the elements
// that the header promises. Errors tell the place.
func parseIdx(header []byte, size int64, dims int) ([]int, error) {
	kinds := map[byte]string{1: "labels", 3: "images"}
	want := kinds[byte(dims)]
	if len(header) >= 4 && header[0] == 0 && header[1] == 0 && header[2] == idxBytes && header[3] != byte(dims) {
		if got := kinds[header[3]]; got != "" {
			return nil, fmt.Errorf("byte 3: it has %s where %s should be: are two files swapped", got, want)
		}
		return nil, fmt.Errorf("byte 3: it has %d dimensions, %s have %d", header[3], want, dims)
	}
	if magic := []byte{0, 0, idxBytes, byte(dims)}; len(header) < 4 || string(header[:4]) != string(magic) {
		return nil, fmt.Errorf("byte 0: it begins with % x, an idx file with %s begins with % x", header[:min(4, len(header))], want, magic)
	}
	if len(header) < idxHeader(dims) {
		return nil, fmt.Errorf("byte %d: it ends inside the header, which has %d bytes", len(header), idxHeader(dims))
	}
	var shape []int
	total := int64(1)
	for d := range dims {
		n := int64(binary.BigEndian.Uint32(header[4+4*d:]))
		if n > 0 && total > MaxFileSize/n {
			return nil, fmt.Errorf("byte %d: dimension %d is %d, which is too large", 4+4*d, d, n)
		}
		total *= n
		shape = append(shape, int(n))
	}
	if whole := int64(idxHeader(dims)) + total; size != whole {
		what := "is cut short"
		if size > whole {
			what = "goes on"
		}
		return nil, fmt.Errorf("byte %d: it %s: its header promises %d bytes in all for %v", min(size, whole), what, whole, shape)
	}
	return shape, nil
}
