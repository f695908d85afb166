package runfile

import (
	"fmt"
	"strings"
)

// A fault is what is wrong with one key.
type fault struct {
	key, problem string
	line         int // 0 if the key is not in a file
}

func (f *fault) Error() string {
	at := ""
	if f.line > 0 {
		at = fmt.Sprintf("line %d: ", f.line)
	}
	if f.key == "" {
		return at + f.problem
	}
	return at + f.key + ": " + f.problem
}

// Validate tells the first value that is not allowed, or does not go with another one. Parse has done it; a program
// that changes a Run does it again.
func (r *Run) Validate() error {
	if f := r.fault(); f != nil {
		return f
	}
	return nil
}

func (r *Run) fault() *fault {
	list := fields(r)
	for i := range list {
		f := &list[i]
		if f.off {
			if !f.zero() {
				return &fault{key: f.key, problem: fmt.Sprintf("is %s, but this key has no meaning with %s", short(f.text()), r.kindOf(f.key))}
			}
			continue
		}
		if !f.ok() {
			return f.refuse(f.text())
		}
	}
	return r.disagreement()
}

// kindOf is the choice that decides which keys the section of key has.
func (r *Run) kindOf(key string) string {
	if strings.HasPrefix(key, "data.") {
		return "data.source " + r.Data.Source
	}
	return "model.type " + r.Model.Type
}

// refuse says that text is no value for f.
func (f *field) refuse(text string) *fault {
	return &fault{key: f.key, problem: fmt.Sprintf("%s is not allowed here, use %s", short(text), f.allowed)}
}

// maxValues bounds the memory of a microbatch of images, in float32 values.
const maxValues = 1 << 28

// maxLogits bounds a microbatch's scores of tokens, in float32 values.
const maxLogits = 1 << 30

// disagreement is the first value that does not go with another one. Each value alone is allowed.
func (r *Run) disagreement() *fault {
	m, d, t := &r.Model, &r.Data, &r.Train
	vit, gpt, own := m.Type == "vit", m.Type == "gpt", m.Type == Custom
	images, sequences := d.Source == "digits" || d.Source == "mnist", d.Source == "text" || d.Source == "tokens"
	for _, c := range []struct {
		wrong   bool
		key     string
		problem string
	}{
		{own != (d.Source == Custom), "data.source", fmt.Sprintf("is %s while model.type is %s: a Go program brings both or none", d.Source, m.Type)},
		{images && !vit, "data.source", fmt.Sprintf("%s is images, for model.type vit, not %s", d.Source, m.Type)},
		{sequences && !gpt, "data.source", fmt.Sprintf("%s is tokens, for model.type gpt, not %s", d.Source, m.Type)},
		{vit && m.Image%max(1, m.Patch) != 0, "model.patch", fmt.Sprintf("%d does not divide model.image, %d", m.Patch, m.Image)},
		{!own && m.Dim%max(1, m.Heads) != 0, "model.heads", fmt.Sprintf("%d does not divide model.dim, %d", m.Heads, m.Dim)},
		{vit && m.Channels != 1, "model.channels", fmt.Sprintf("%d is not allowed here, digits have 1", m.Channels)},
		{vit && m.Classes < 10, "model.classes", fmt.Sprintf("%d is not allowed here, digits have 10", m.Classes)},
		{d.Source == "text" && m.Vocab < 256, "model.vocab", fmt.Sprintf("%d is not allowed here, text has 256 different bytes", m.Vocab)},
		{t.Microbatch > t.Batch, "train.microbatch", fmt.Sprintf("%d is more than train.batch, %d", t.Microbatch, t.Batch)},
		{vit && t.Microbatch*m.Channels*m.Image*m.Image > maxValues, "train.microbatch",
			fmt.Sprintf("%d images are more than %d values, use fewer", t.Microbatch, maxValues)},
		{gpt && t.Microbatch*m.Context > maxLogits/m.Vocab, "train.microbatch",
			fmt.Sprintf("%d samples of model.context x model.vocab scores are more than %d values, use fewer", t.Microbatch, maxLogits)},
		{t.MinLR > t.LR, "train.min_lr", fmt.Sprintf("%s is more than train.lr, %s", decimal(t.MinLR), decimal(t.LR))},
		{t.MinLR > 0 && t.Schedule != "cosine", "train.min_lr", "has no meaning with schedule " + t.Schedule + ", leave it out"},
		{t.Warmup > t.Steps, "train.warmup", fmt.Sprintf("%d is more than train.steps, %d", t.Warmup, t.Steps)},
	} {
		if c.wrong {
			return &fault{key: c.key, problem: c.problem}
		}
	}
	return nil
}

// short quotes text from outside on one line and cuts it.
func short(text string) string {
	const most = 40
	if r := []rune(text); len(r) > most {
		text = string(r[:most]) + "..."
	}
	return fmt.Sprintf("%q", text)
}
