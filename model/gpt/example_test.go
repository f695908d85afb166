package gpt_test

import (
	"fmt"

	"shoal/model/gpt"
)

func ExampleNew() {
	m, err := gpt.New(gpt.Config{Vocab: 256, Context: 128, Dim: 64, Depth: 2, Heads: 4})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, u := range m.Units() {
		fmt.Println(u.Name, u.Params[0].Name, u.Params[0].Shape)
	}
	_, err = gpt.New(gpt.Config{Vocab: 256, Context: 128, Dim: 64, Depth: 2, Heads: 5})
	fmt.Println(err)
	// Output:
	// root wte.weight [256 64]
	// h.0 h.0.ln_1.weight [64]
	// h.1 h.1.ln_1.weight [64]
	// gpt: heads is 5: must divide dim, which is 64
}
