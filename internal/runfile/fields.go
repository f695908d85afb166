package runfile

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"shoal/fsdp"
)

// A field is one key of the run file. The table in fields is the only place that says what is allowed.
type field struct {
	key     string // "train.lr"
	value   any    // *string, *int, *uint64, *float64 or *bool, into a Run
	allowed string
	help    string
	ok      func() bool // whether the value is allowed
	off     bool        // the key has no meaning with the model's type or the data's source
	local   bool        // the value is this machine's own, no part of the run
}

// fields lists the keys of r in the order of the documentation.
func fields(r *Run) []field {
	m, d, t, h := &r.Model, &r.Data, &r.Train, &r.Mesh
	vit, gpt := m.Type == "vit", m.Type == "gpt"
	list := []field{
		name("name", &r.Name, "what people call the run"),

		choice("model.type", &m.Type, "the network; `custom` is that of a Go program", "vit", "gpt", Custom),
		only(vit, whole("model.image", &m.Image, 1, 1024, "width and height of an image in pixels")),
		only(vit, whole("model.patch", &m.Patch, 1, 1024, "width and height of a patch in pixels; divides `image`")),
		only(vit, whole("model.channels", &m.Channels, 1, 64, "values per pixel; digits have 1")),
		only(m.Type != Custom, whole("model.dim", &m.Dim, 1, 16384, "width of a token")),
		only(m.Type != Custom, whole("model.depth", &m.Depth, 1, 1024, "number of blocks")),
		only(m.Type != Custom, whole("model.heads", &m.Heads, 1, 1024, "attention heads; divides `dim`")),
		only(vit, whole("model.classes", &m.Classes, 1, 65536, "what the network tells apart; at least 10 for digits")),
		only(gpt, whole("model.vocab", &m.Vocab, 1, 1<<24, "tokens that there are; at least 256 for text")),
		only(gpt, whole("model.context", &m.Context, 1, 65536, "tokens of a sample, and how far back each one looks")),

		choice("data.source", &d.Source, "what it learns from; `custom` is the data of a Go program",
			"digits", "mnist", "text", "tokens", Custom),
		only(d.Files(), path("data.path", &d.Path, "where the files are on this machine, no part of the run; `--data` overrides it")),
		only(d.Source == "digits", whole("data.samples", &d.Samples, 1, 1<<30, "drawn training samples, each used once an epoch")),
		only(d.Source != Custom, whole("data.eval", &d.Eval, 0, 1<<24, "held-out samples on which accuracy is told, at most; 0 for none")),
		only(d.Source == "digits", seed("data.seed", &d.Seed, "which digits are drawn")),
		only(d.Source == "tokens", width("data.width", &d.Width, "bits of a token in the file")),

		whole("train.steps", &t.Steps, 1, 1_000_000_000, "steps of the run"),
		whole("train.batch", &t.Batch, 1, 65536, "samples in a step's global batch"),
		whole("train.microbatch", &t.Microbatch, 1, 65536, "samples in a microbatch, a peer's unit of work; at most `batch`"),
		number("train.lr", &t.LR, 1e-12, 100, "highest learning rate"),
		number("train.min_lr", &t.MinLR, 0, 100, "learning rate at the end of a cosine schedule; at most `lr`"),
		choice("train.schedule", &t.Schedule, "how the learning rate goes on after the warmup", "cosine", "constant"),
		whole("train.warmup", &t.Warmup, 0, 1_000_000_000, "steps in which the learning rate climbs; at most `steps`"),
		number("train.beta1", &t.Beta1, 0, 0.999999, "AdamW's decay of the mean gradient"),
		number("train.beta2", &t.Beta2, 0, 0.999999, "AdamW's decay of the mean squared gradient"),
		number("train.eps", &t.Eps, 1e-20, 1, "AdamW's smallest divisor"),
		number("train.weight_decay", &t.WeightDecay, 0, 100, "decoupled weight decay, not on norms and biases"),
		number("train.clip", &t.Clip, 0, 1e9, "largest norm of a step's gradient; 0 for no limit"),
		seed("train.seed", &t.Seed, "initial parameters and order of the samples"),
		patterns("train.frozen", &t.Frozen, "parameters that never change, by name"),

		choice("mesh.strategy", &h.Strategy, "fsdp shards parameters, gradients and optimizer state, zero2 the latter two, "+
			"zero1 the last, ddp nothing", "fsdp", "zero2", "zero1", "ddp"),
		whole("mesh.backups", &h.Backups, 0, 8, "further peers that keep each shard, so that one of them can take it over; with ddp all do"),
		wrap("mesh.wrap", &h.Wrap, "what is gathered and dropped as one unit: a block, K blocks, or blocks of up to N bytes"),
		truth("mesh.reshard", &h.Reshard, "whether a unit is dropped between forward and backward; for fsdp only"),
		choice("mesh.recompute", &h.Recompute, "whether activations are computed again in the backward pass",
			"auto", "always", "never"),
		whole("mesh.audit_every", &h.AuditEvery, 0, 1_000_000_000, "steps from one comparison of owners and backups to the next; 0 for none"),
		choice("mesh.timing", &h.Timing, "how soon a silent peer counts as lost: about 2.5 s in a local network, 6 s between distant places", "lan", "wan"),
		whole("mesh.lost_after", &h.LostAfter, 1, 86400, "seconds for which the run waits for a shard whose holders are all gone, before it goes back to a checkpoint or ends"),

		choice("precision.params", &r.Precision.Params, "format in which parameters travel and are computed with", "bf16", "fp32"),
		choice("precision.reduce", &r.Precision.Reduce, "format in which gradients are summed", "fixed32", "fixed16", "fp32", "bf16"),

		choice("wire.packing", &r.Wire.Packing, "lossless compression of what travels", "auto", "on", "off"),

		whole("checkpoint.every", &r.Checkpoint.Every, 0, 1_000_000_000, "steps from one checkpoint to the next; 0 for none"),
		whole("checkpoint.keep", &r.Checkpoint.Keep, 1, 1000, "how many of the newest checkpoints stay"),
	}
	return list
}

// MaxName is the largest length of a run's name.
const MaxName = 64

func name(key string, p *string, help string) field {
	return field{key: key, value: p, help: help,
		allowed: fmt.Sprintf("1 to %d letters, digits, `.`, `-` or `_`, in quotes if it looks like a number or truth value", MaxName),
		ok: func() bool {
			return len(*p) >= 1 && len(*p) <= MaxName && strings.Trim(*p,
				"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_") == ""
		}}
}

func choice(key string, p *string, help string, of ...string) field {
	return field{key: key, value: p, help: help, allowed: "`" + strings.Join(of, "`, `") + "`", ok: func() bool { return slices.Contains(of, *p) }}
}

func wrap(key string, p *string, help string) field {
	return field{key: key, value: p, help: help, allowed: "`block`, `layers:K`, `bytes:N`, with whole numbers from 1",
		ok: func() bool { return fsdp.Wrap(*p).Valid() }}
}

func patterns(key string, p *string, help string) field {
	return field{key: key, value: p, help: help, allowed: fmt.Sprintf("up to %d letters of names separated by spaces, in which * stands for any text", maxPatterns),
		ok: func() bool {
			_, err := fsdp.FrozenBy(*p)
			return err == nil && len(*p) <= maxPatterns && !strings.ContainsFunc(*p, unicode.IsControl)
		}}
}

const maxPatterns = 4096

// only makes a key that has a meaning for some models or data alone.
func only(meant bool, f field) field {
	f.off = !meant
	return f
}

// MaxPath is the largest length of a path in bytes.
const MaxPath = 4096

func path(key string, p *string, help string) field {
	return field{key: key, value: p, help: help, local: true,
		allowed: fmt.Sprintf("a path of at most %d bytes without control characters", MaxPath),
		ok:      func() bool { return len(*p) <= MaxPath && !strings.ContainsFunc(*p, control) }}
}

func control(r rune) bool { return r < ' ' || r == 0x7f }

func width(key string, p *int, help string) field {
	return field{key: key, value: p, help: help, allowed: "`16`, `32`", ok: func() bool { return *p == 16 || *p == 32 }}
}

func whole(key string, p *int, lo, hi int, help string) field {
	return field{key: key, value: p, help: help, allowed: fmt.Sprintf("a whole number from %d to %d", lo, hi),
		ok: func() bool { return *p >= lo && *p <= hi }}
}

func seed(key string, p *uint64, help string) field {
	return field{key: key, value: p, help: help, allowed: fmt.Sprintf("a whole number from 0 to %d", uint64(math.MaxUint64)),
		ok: func() bool { return true }}
}

func number(key string, p *float64, lo, hi float64, help string) field {
	return field{key: key, value: p, help: help, allowed: fmt.Sprintf("a number from %s to %s", decimal(lo), decimal(hi)),
		ok: func() bool { return *p >= lo && *p <= hi }}
}

func truth(key string, p *bool, help string) field {
	return field{key: key, value: p, help: help, allowed: "`true`, `false`", ok: func() bool { return true }}
}

// decimal is the shortest text that reads back as the same number.
func decimal(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }

// text is the value as a run file has it.
func (f *field) text() string {
	switch p := f.value.(type) {
	case *float64:
		return decimal(*p)
	case *int:
		return strconv.Itoa(*p)
	case *uint64:
		return strconv.FormatUint(*p, 10)
	case *bool:
		return strconv.FormatBool(*p)
	case *string:
		return *p
	}
	return ""
}

// set gives the value of a YAML scalar with the given tag; false if it is of another type.
func (f *field) set(tag, text string) bool {
	switch p := f.value.(type) {
	case *string:
		*p = text
		return tag == "!!str"
	case *bool:
		*p = text == "true"
		return tag == "!!bool" && (text == "true" || text == "false")
	case *int:
		n, err := strconv.Atoi(text)
		*p = n
		return err == nil && tag == "!!int" && plain(text)
	case *uint64:
		n, err := strconv.ParseUint(text, 10, 64)
		*p = n
		return err == nil && tag == "!!int" && plain(text)
	case *float64:
		n, err := strconv.ParseFloat(text, 64)
		if n == 0 {
			n = 0 // not minus zero
		}
		*p = n
		return err == nil && (tag == "!!int" || tag == "!!float")
	}
	return false
}

// plain refuses the leading zero that YAML 1.1 reads as octal.
func plain(text string) bool {
	digits := strings.TrimLeft(text, "+-")
	return digits == "0" || !strings.HasPrefix(digits, "0")
}

// zero says whether the value is that of a key that is off.
func (f *field) zero() bool {
	was := f.text()
	return was == "" || was == "0" || was == "false"
}

// clear sets the value to zero.
func (f *field) clear() {
	switch p := f.value.(type) {
	case *string:
		*p = ""
	case *int:
		*p = 0
	case *uint64:
		*p = 0
	case *float64:
		*p = 0
	case *bool:
		*p = false
	}
}
