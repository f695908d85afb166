package vit_test

import (
	"fmt"

	"shoal/model/vit"
)

func ExampleNew() {
	m, err := vit.New(vit.Config{Image: 28, Patch: 7, Channels: 1, Dim: 8, Depth: 2, Heads: 2, Classes: 10})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, u := range m.Units() {
		fmt.Println(u.Name, u.Params[0].Name, u.Params[0].Shape)
	}
	_, err = vit.New(vit.Config{Image: 28, Patch: 5, Channels: 1, Dim: 8, Depth: 2, Heads: 2, Classes: 10})
	fmt.Println(err)
	// Output:
	// root patch_embed.weight [8 49]
	// blocks.0 blocks.0.norm1.weight [8]
	// blocks.1 blocks.1.norm1.weight [8]
	// vit: patch is 5: must divide image, which is 28
}
