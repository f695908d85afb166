// Package model is what benchbrowser trains, in the browser and beside it.
package model

import (
	"shoal/fsdp"
	"shoal/kernel"
	"shoal/model/vit"
	"shoal/scripts/internal/trainer"
)

// Name says what it is.
const Name = "ViT 12 x 64 (605 thousand parameters), 64 images of 28 x 28"

// New starts a run of it on dev, which it takes over.
func New(dev kernel.Device) (*trainer.Trainer, error) {
	const classes, batch = 10, 64
	m, err := vit.New(vit.Config{Image: 28, Patch: 7, Channels: 1, Dim: 64, Depth: 12, Heads: 4, Classes: classes})
	if err != nil {
		return nil, err
	}
	var data fsdp.Dataset = trainer.NewSamples(m.Sample(), batch, classes)
	return trainer.New(m, data, dev)
}
