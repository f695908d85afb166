package codec_test

import (
	"bytes"
	"fmt"

	"shoal/swarm/codec"
)

// Two thousand bf16 numbers between 1 and 2: all have the same high byte.
func ExamplePack() {
	var numbers []byte
	for i := range 2000 {
		numbers = append(numbers, byte(i*i%128), 0x3f)
	}
	packed, err := codec.Pack(nil, numbers, 2)
	if err != nil {
		fmt.Println(err)
		return
	}
	back := make([]byte, len(numbers)) // the receiver knows how many there are
	err = codec.Unpack(back, packed, 2)
	fmt.Println(len(packed) < len(numbers)/2, bytes.Equal(back, numbers), err)
	fmt.Println(codec.Unpack(back, packed[:len(packed)-1], 2))
	// Output:
	// true true <nil>
	// codec: corrupt packed bytes: a plane ends early
}
