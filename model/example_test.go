package model_test

import (
	"fmt"

	"shoal/kernel"
	"shoal/model"
)

// scale is a layer that only shows what a model says about itself.
type scale struct{}

func (scale) Forward(c *model.Ctx, p []kernel.Buffer, x kernel.Buffer) kernel.Buffer { return x }
func (scale) Backward(c *model.Ctx, p, dp []kernel.Buffer, x, dy kernel.Buffer) kernel.Buffer {
	return dy
}

// tiny is a model of one unit and one stage.
type tiny struct{ uses string }

func (tiny) Units() []model.Unit {
	return []model.Unit{{Name: "root", Params: []model.Param{{Name: "weight", Shape: []int{2, 3}, Init: model.Init{Kind: model.Normal, A: 0.02}, Decay: true}}}}
}
func (m tiny) Stages() []model.Stage {
	return []model.Stage{{Unit: 0, Params: []string{m.uses}, Layer: scale{}}}
}
func (tiny) Sample() model.Spec { return model.Spec{Floats: 3, Labels: 1} }

func ExampleValidate() {
	fmt.Println(model.Validate(tiny{uses: "weight"}))
	fmt.Println(model.Validate(tiny{uses: "wieght"}))
	// Output:
	// <nil>
	// model: stage 0 uses parameter "wieght", which is not in its unit "root"
}

func ExampleDescribe() {
	fmt.Print(model.Describe(tiny{uses: "weight"}))
	// Output:
	// sample {Floats:3 Tokens:0 Labels:1}
	// unit root
	//   weight [2 3] init 3 0.02 decay true
	// stage 0 unit 0 [weight] model_test.scale
}
