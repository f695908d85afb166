package runfile

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// keysOf walks the struct and lists the keys that its tags promise.
func keysOf(t reflect.Type, prefix string) []string {
	var keys []string
	for i := range t.NumField() {
		f := t.Field(i)
		key := prefix + f.Tag.Get("yaml")
		if f.Type.Kind() == reflect.Struct {
			keys = append(keys, keysOf(f.Type, key+".")...)
			continue
		}
		keys = append(keys, key)
	}
	return keys
}

// valueAt follows a key's tags through the struct.
func valueAt(v reflect.Value, key string) any {
	for _, part := range strings.Split(key, ".") {
		for i := range v.NumField() {
			if v.Type().Field(i).Tag.Get("yaml") == part {
				v = v.Field(i)
				break
			}
		}
	}
	return v.Addr().Interface()
}

func TestFieldsCoverTheStruct(t *testing.T) {
	var r Run
	list := fields(&r)
	var keys []string
	for i := range list {
		f := &list[i]
		keys = append(keys, f.key)
		if f.value != valueAt(reflect.ValueOf(&r).Elem(), f.key) {
			t.Errorf("%s points elsewhere than its tag", f.key)
		}
	}
	promised := keysOf(reflect.TypeFor[Run](), "")
	seen := map[string]bool{}
	for _, k := range keys {
		seen[k] = true
	}
	for _, k := range promised {
		if !seen[k] {
			t.Errorf("%s has no entry in fields", k)
		}
	}
	if len(keys) != len(promised) {
		t.Errorf("fields has %d keys, the struct %d", len(keys), len(promised))
	}
}

// The documentation has one row for each key, with its default and what is allowed.
func TestDocumentation(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "run-file.md"))
	if err != nil {
		t.Fatal(err)
	}
	r := everything()
	rows := regexp.MustCompile("(?m)^\\| `.*$").FindAllString(string(text), -1)
	var want []string
	for _, f := range fields(&r) {
		value := f.text()
		if value == "" {
			value = `""`
		}
		want = append(want, fmt.Sprintf("| `%s` | `%s` | %s | %s |", f.key, value, f.allowed, f.help))
	}
	if got, want := strings.Join(rows, "\n"), strings.Join(want, "\n"); got != want {
		t.Errorf("docs/run-file.md has the rows\n%s\nwant\n%s", got, want)
	}
	for _, block := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(text, -1) {
		if _, err := Parse(block[1]); err != nil {
			t.Errorf("an example in docs/run-file.md: %v\n%s", err, block[1])
		}
	}
}

// The whole default run, written out, is what an almost empty file gives.
func TestDefault(t *testing.T) {
	def := Default()
	if err := def.Validate(); err != nil {
		t.Fatal(err)
	}
	const same = `
name: digits
model: {type: vit, image: 28, patch: 7, channels: 1, dim: 64, depth: 12, heads: 4, classes: 10}
data: {source: digits}
train: {steps: 450, batch: 64, microbatch: 8, lr: 2e-3, schedule: cosine, warmup: 20, weight_decay: 0.05, clip: 1.0, seed: 1}
mesh: {strategy: fsdp, backups: 1, wrap: block}
precision: {params: bf16, reduce: fixed32}
wire: {packing: auto}
`
	for _, text := range []string{same, "{}", "name: digits", string(Marshal(def))} {
		if got, err := Parse([]byte(text)); err != nil || got != def {
			t.Errorf("Parse(%q) = %+v, %v, want the default run", text, got, err)
		}
	}
}

func TestParse(t *testing.T) {
	text := `
name: my-run_2.0   # a comment
model: {type: vit, image: 14, patch: 2, dim: 16, depth: 3, heads: 1, classes: 12}
data: {source: digits, samples: 100, eval: 0, seed: 18446744073709551615}
train:
  steps: 30
  batch: 5
  microbatch: 5
  lr: 1e-3
  min_lr: .0001
  warmup: 30
  beta1: 0
  beta2: 0.999
  eps: 1e-6
  weight_decay: -0.0
  clip: 0
  seed: 0
mesh: {strategy: ddp, backups: 8, reshard: false, recompute: never, audit_every: 0, timing: wan, lost_after: 3600}
precision: {params: fp32}
wire: {packing: off}
checkpoint: {every: 7, keep: 3}
`
	want := Run{
		Name:  "my-run_2.0",
		Model: Model{Type: "vit", Image: 14, Patch: 2, Channels: 1, Dim: 16, Depth: 3, Heads: 1, Classes: 12},
		Data:  Data{Source: "digits", Samples: 100, Seed: math.MaxUint64},
		Train: Train{Steps: 30, Batch: 5, Microbatch: 5, LR: 1e-3, MinLR: 1e-4, Schedule: "cosine", Warmup: 30, Beta2: 0.999,
			Eps: 1e-6},
		Mesh:      Mesh{Strategy: "ddp", Backups: 8, Wrap: "block", Recompute: "never", Timing: "wan", LostAfter: 3600},
		Precision: Precision{Params: "fp32", Reduce: "fixed32"},
		Wire:      Wire{Packing: "off"},

		Checkpoint: Checkpoint{Every: 7, Keep: 3},
	}
	got, err := Parse([]byte(text))
	if err != nil || got != want {
		t.Fatalf("got %+v, %v\nwant %+v", got, err, want)
	}
	if again, err := Parse(Marshal(got)); err != nil || again != got {
		t.Errorf("Marshal and Parse give %+v, %v\nwant %+v", again, err, got)
	}
	if !bytes.Contains(got.Canonical(), []byte("train.weight_decay=0\n")) {
		t.Errorf("minus zero is not canonical:\n%s", got.Canonical())
	}
}

func TestParseCustom(t *testing.T) {
	got, err := Parse([]byte("model: {type: custom}\ndata: {source: custom}\n"))
	want := Default()
	want.Model, want.Data = Model{Type: Custom}, Data{Source: Custom}
	if err != nil || got != want {
		t.Fatalf("got %+v, %v\nwant %+v", got, err, want)
	}
	if again, err := Parse(Marshal(got)); err != nil || again != got {
		t.Errorf("Marshal and Parse give %+v, %v\nwant %+v", again, err, got)
	}
	if err := got.Validate(); err != nil {
		t.Error(err)
	}
	got.Model.Dim = 3
	if err := got.Validate(); err == nil || !strings.Contains(err.Error(), "model.dim") {
		t.Errorf("a custom model with a dim: %v", err)
	}
}

func TestParseErrors(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"empty", "", "it is empty"},
		{"only a comment", "# nothing\n", "it is empty"},
		{"null", "~", "it is empty"},
		{"a list", "- a", "line 1: a run file has sections such as"},
		{"a text", "digits", "line 1: a run file has sections such as"},
		{"unknown section", "name: a\nmodle: {}", `line 2: unknown key "modle", a run file has name, model, data, train, mesh, precision, wire, checkpoint`},
		{"unknown key", "model:\n  dim: 64\n  width: 3", `line 3: unknown key "model.width", model has type, image, patch`},
		{"dotted key", "model.dim: 3", `unknown key "model.dim", a run file has name`},
		{"key that is a list", "? [a]\n: b", `line 1: unknown key ""`},
		{"merge key", "<<: {name: x}", `unknown key "<<"`},
		{"key twice", "model:\n  dim: 64\n  dim: 64", `line 3: key "model.dim" is there twice, first on line 2`},
		{"section twice", "model: {}\nmodel: {}", `line 2: key "model" is there twice, first on line 1`},
		{"section without keys", "data:\n", "line 1: data: is a section, write it as `data: {key: value, ...}`, with the keys source, path, samples"},
		{"section that is a number", "data: 3\n", "line 1: data: is a section"},
		{"text for a number", "model:\n  dim: wide", `line 2: model.dim: "wide" is not allowed here, use a whole number from 1 to 16384`},
		{"quoted number", "model: {dim: '64'}", `model.dim: "64" is not allowed here`},
		{"no value", "model: {dim: }", `model.dim: "" is not allowed here`},
		{"list for a number", "model: {dim: [1]}", `model.dim: "a list" is not allowed here`},
		{"mapping for a text", "mesh: {wrap: {layers: 2}}", "mesh.wrap: \"a mapping\" is not allowed here, use `block`, `layers:K`, `bytes:N`"},
		{"fraction", "train: {steps: 1.5}", `train.steps: "1.5" is not allowed here`},
		{"octal", "train: {steps: 010}", `train.steps: "010" is not allowed here`},
		{"hexadecimal", "train: {steps: 0x10}", `train.steps: "0x10" is not allowed here`},
		{"underscore", "train: {steps: 1_0}", `train.steps: "1_0" is not allowed here`},
		{"zero steps", "train: {steps: 0}", `train.steps: "0" is not allowed here, use a whole number from 1 to`},
		{"negative", "train: {steps: -1}", `train.steps: "-1" is not allowed here`},
		{"huge", "train: {steps: 99999999999999999999}", `train.steps: "99999999999999999999" is not allowed here`},
		{"huge seed", "train: {seed: 18446744073709551616}", "train.seed: "},
		{"negative seed", "train: {seed: -1}", "train.seed: "},
		{"NaN", "train: {lr: .nan}", `train.lr: ".nan" is not allowed here, use a number from`},
		{"infinity", "train: {lr: .inf}", "train.lr: "},
		{"overflow", "train: {lr: 1e999}", "train.lr: "},
		{"negative rate", "train: {lr: -1e-3}", "train.lr: "},
		{"rate of zero", "train: {lr: 0}", "train.lr: "},
		{"beta of one", "train: {beta1: 1}", "train.beta1: "},
		{"truth value", "mesh: {reshard: 1}", "mesh.reshard: \"1\" is not allowed here, use `true`, `false`"},
		{"yes", "mesh: {reshard: yes}", "mesh.reshard: "},
		{"number for a name", "name: 12", `name: "12" is not allowed here, use 1 to 64 letters, digits, `},
		{"name with a line break", `name: "a\nb"`, `name: "a\nb" is not allowed here`},
		{"long name", "name: " + strings.Repeat("a", 65), `name: "aaaa`},
		{"unknown strategy", "mesh: {strategy: hsdp}", "mesh.strategy: \"hsdp\" is not allowed here, use `fsdp`, `zero2`, `zero1`, `ddp`"},
		{"checkpoints of a fraction", "checkpoint: {every: 0.5}", `checkpoint.every: "0.5" is not allowed here, use a whole number from 0 to 1000000000`},
		{"no checkpoints to keep", "checkpoint: {every: 5, keep: 0}", `checkpoint.keep: "0" is not allowed here, use a whole number from 1 to 1000`},
		{"backups", "mesh: {backups: 9}", `mesh.backups: "9" is not allowed here, use a whole number from 0 to 8`},
		{"timing", "mesh: {timing: slow}", "mesh.timing: \"slow\" is not allowed here, use `lan`, `wan`"},
		{"never waited for", "mesh: {lost_after: 0}", `mesh.lost_after: "0" is not allowed here, use a whole number from 1 to 86400`},
		{"unknown reduce", "precision: {reduce: int8}", "precision.reduce: \"int8\" is not allowed here, use `fixed32`, `fixed16`, `fp32`, `bf16`"},
		{"patch", "model: {patch: 5}", "line 1: model.patch: 5 does not divide model.image, 28"},
		{"image", "model:\n  image: 30", "model.patch: 7 does not divide model.image, 30"},
		{"heads", "model: {heads: 5}", "line 1: model.heads: 5 does not divide model.dim, 64"},
		{"channels", "model: {channels: 3}", "line 1: model.channels: 3 is not allowed here, digits have 1"},
		{"classes", "model: {classes: 9}", "line 1: model.classes: 9 is not allowed here, digits have 10"},
		{"microbatch", "train: {microbatch: 65}", "line 1: train.microbatch: 65 is more than train.batch, 64"},
		{"microbatch of large images", "model: {image: 1024, patch: 8}\ntrain: {batch: 512, microbatch: 512}",
			"line 2: train.microbatch: 512 images are more than"},
		{"warmup", "train:\n  steps: 10\n  warmup: 11", "line 3: train.warmup: 11 is more than train.steps, 10"},
		{"min_lr", "train: {min_lr: 1}", "line 1: train.min_lr: 1 is more than train.lr, 0.002"},
		{"min_lr of a constant", "train: {min_lr: 1e-4, schedule: constant}", "train.min_lr: has no meaning with schedule constant"},
		{"key of a custom model", "model:\n  type: custom\n  dim: 3", "line 3: model.dim: has no meaning with model.type custom, leave it out"},
		{"key of custom data", "data: {samples: 5, source: custom}", "line 1: data.samples: has no meaning with data.source custom, leave it out"},
		{"samples of files", "data: {source: mnist, samples: 5}", "line 1: data.samples: has no meaning with data.source mnist, leave it out"},
		{"path of drawn data", "data: {path: x}", "data.path: has no meaning with data.source digits"},
		{"path with a line break", `data: {source: mnist, path: "a\nb"}`, `data.path: "a\nb" is not allowed here, use a path of at most 4096 bytes`},
		{"long path", "data: {source: mnist, path: " + strings.Repeat("a", MaxPath+1) + "}", "data.path: "},
		{"path that is a number", "data: {source: mnist, path: 3}", "data.path: "},
		{"width", "data: {source: tokens, width: 8}", "data.width: \"8\" is not allowed here, use `16`, `32`"},
		{"key of the vit in a gpt", "model: {type: gpt, patch: 7}\ndata: {source: text}", "line 1: model.patch: has no meaning with model.type gpt, leave it out"},
		{"key of the gpt in a vit", "model: {context: 64}", "line 1: model.context: has no meaning with model.type vit, leave it out"},
		{"vocab for text", "model: {type: gpt, vocab: 255}\ndata: {source: text}", "line 1: model.vocab: 255 is not allowed here, text has 256 different bytes"},
		{"context", "model: {type: gpt, context: 0}\ndata: {source: text}", `line 1: model.context: "0" is not allowed here, use a whole number from 1 to 65536`},
		{"heads of a gpt", "model: {type: gpt, heads: 5}\ndata: {source: text}", "line 1: model.heads: 5 does not divide model.dim, 64"},
		{"images for tokens", "model: {type: gpt}", "data.source: digits is images, for model.type vit, not gpt"},
		{"microbatch of many scores", "model: {type: gpt, vocab: 50257, context: 1024}\ndata: {source: tokens}\ntrain: {microbatch: 21}",
			"line 3: train.microbatch: 21 samples of model.context x model.vocab scores are more than"},
		{"unknown model", "model: {type: rnn}", "model.type: \"rnn\" is not allowed here, use `vit`, `gpt`, `custom`"},
		{"text for images", "data: {source: text}", "data.source: text is tokens, for model.type gpt, not vit"},
		{"custom model alone", "model: {type: custom}", "data.source: is digits while model.type is custom: a Go program brings both or none"},
		{"custom data alone", "data: {source: custom}", "line 1: data.source: is custom while model.type is vit"},
		{"anchor", "model: &a {dim: 3}", "line 1: model: anchors and aliases (& and *) are not allowed"},
		{"alias", "name: &a b\nmesh: {wrap: *a}", "line 1: name: anchors"},
		{"alias bomb", "a: &a [x,x]\nb: &b [*a,*a]\nc: [*b,*b]", `line 1: unknown key "a"`},
		{"tag", "name: !!str x", "line 1: name: tags (!) are not allowed"},
		{"two documents", "name: a\n---\nname: b", "line 2: a second document begins, only one is allowed"},
		{"broken second document", "name: a\n---\n[", "line 3: did not find expected node content"},
		{"syntax", "name: a\n  b: c", "mapping values are not allowed"},
		{"tab", "model:\n\tdim: 3", "line 2: found character that cannot start any token"},
		{"zero byte", "\x00", "control characters are not allowed"},
		{"bad UTF-8", "name: \xff", "invalid"},
		{"deep", strings.Repeat("[", 100000), "exceeded max depth"},
		{"too long", strings.Repeat("#", MaxBytes+1), "1048577 bytes are too many, at most 1048576 are allowed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := Parse([]byte(c.text))
			switch {
			case err == nil:
				t.Errorf("accepted as %+v", r)
			case !strings.Contains(err.Error(), c.want):
				t.Errorf("error is\n%v\nwant it to have\n%s", err, c.want)
			case strings.ContainsAny(err.Error(), "\n\r") || len(err.Error()) > 300:
				t.Errorf("error is not one short line: %q", err)
			}
		})
	}
}

// A program changes a Run by its flags and validates it again; such errors have no line.
func TestValidate(t *testing.T) {
	for _, c := range []struct {
		change func(*Run)
		want   string
	}{
		{func(r *Run) { r.Train.Steps = 0 }, `train.steps: "0" is not allowed here, use a whole number from 1 to 1000000000`},
		{func(r *Run) { r.Train.LR = math.NaN() }, `train.lr: "NaN" is not allowed here, use a number from 1e-12 to 100`},
		{func(r *Run) { r.Train.Clip = math.Inf(1) }, `train.clip: "+Inf" is not allowed here, use a number from 0 to 1e+09`},
		{func(r *Run) { r.Mesh.Strategy = "x" }, "mesh.strategy: \"x\" is not allowed here, use `fsdp`, `zero2`, `zero1`, `ddp`"},
		{func(r *Run) { r.Model.Patch = 0 }, `model.patch: "0" is not allowed here, use a whole number from 1 to 1024`},
		{func(r *Run) { r.Train.Batch = 4 }, "train.microbatch: 8 is more than train.batch, 4"},
	} {
		r := Default()
		c.change(&r)
		if err := r.Validate(); err == nil || err.Error() != c.want {
			t.Errorf("error is %v, want %s", err, c.want)
		}
	}
}

func TestCanonical(t *testing.T) {
	a, err := Parse([]byte("train: {lr: 0.0020, steps: 450}\nmodel: {dim: 64}"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(a.Canonical(), Default().Canonical()) {
		t.Error("equal runs have different canonical forms")
	}
	// Each key counts.
	r := Default()
	for i := range fields(&r) {
		r, f := where(i)
		if f.local {
			continue
		}
		was := string(r.Canonical())
		switch p := f.value.(type) {
		case *string:
			*p += "x"
		case *int:
			*p++
		case *uint64:
			*p++
		case *float64:
			*p += 0.5
		case *bool:
			*p = !*p
		}
		if string(r.Canonical()) == was {
			t.Errorf("%s does not change the canonical form", f.key)
		}
	}
	was := string(Default().Canonical())
	if want := "shoal run file 1\nname=digits\nmodel.type=vit\nmodel.image=28\n"; !strings.HasPrefix(was, want) {
		t.Errorf("canonical form begins %q, want %q", was[:len(want)], want)
	}
}

// where is a run in which the key at index i of fields has a meaning, and that key.
func where(i int) (*Run, *field) {
	for source, kind := range map[string]string{"digits": "vit", "tokens": "gpt", "mnist": "vit"} {
		r := Default()
		r.SetSource(source)
		r.SetModel(kind)
		if f := &fields(&r)[i]; !f.off {
			return &r, f
		}
	}
	panic("a key that never has a meaning")
}

// A path is this machine's own: it goes through a run file, and is no part of the run.
func TestPath(t *testing.T) {
	got, err := Parse([]byte("data: {source: mnist, path: 'a b/c'}"))
	if err != nil || got.Data != (Data{Source: "mnist", Path: "a b/c", Eval: 2000}) {
		t.Fatalf("got %+v, %v", got, err)
	}
	if again, err := Parse(Marshal(got)); err != nil || again != got {
		t.Errorf("Marshal and Parse give %+v, %v\nwant %+v", again, err, got)
	}
	with := got.Canonical()
	if got.Data.Path = ""; !bytes.Equal(with, got.Canonical()) {
		t.Error("the path changes the canonical form")
	}
}

// What a checkpoint may be gone on with is everything but how the work is shared out, travels and is kept.
func TestResult(t *testing.T) {
	r := Default()
	for _, f := range fields(&r) {
		section, _, _ := strings.Cut(f.key, ".")
		want := !f.off && !f.local && section != "mesh" && section != "wire" && section != "checkpoint"
		if got := slices.Contains(r.Result(), f.key+"="+f.text()); got != want {
			t.Errorf("%s is part of the result: %v, want %v", f.key, got, want)
		}
	}
}

func TestSetSource(t *testing.T) {
	r := Default()
	r.Data.Eval = 7
	if r.SetSource("digits"); r.Data.Eval != 7 {
		t.Error("the source that a run has already changes it")
	}
	if r.SetSource("tokens"); r.Data != (Data{Source: "tokens", Eval: 2000, Width: 16}) {
		t.Errorf("tokens begin as %+v", r.Data)
	}
	if r.SetSource("digits"); r.Data != Default().Data {
		t.Errorf("digits begin as %+v", r.Data)
	}
}

func TestParseGPT(t *testing.T) {
	got, err := Parse([]byte("model: {type: gpt, context: 64, dim: 128, heads: 2}\ndata: {source: text}"))
	want := Default()
	want.Model = Model{Type: "gpt", Dim: 128, Depth: 12, Heads: 2, Vocab: 256, Context: 64}
	want.SetSource("text")
	if err != nil || got != want {
		t.Fatalf("got %+v, %v\nwant %+v", got, err, want)
	}
	if again, err := Parse(Marshal(got)); err != nil || again != got {
		t.Errorf("Marshal and Parse give %+v, %v\nwant %+v", again, err, got)
	}
}

func TestSetModel(t *testing.T) {
	r := Default()
	r.Model.Dim = 7
	if r.SetModel("vit"); r.Model.Dim != 7 {
		t.Error("the type that a run has already changes it")
	}
	if r.SetModel("gpt"); r.Model != (Model{Type: "gpt", Dim: 64, Depth: 12, Heads: 4, Vocab: 256, Context: 128}) {
		t.Errorf("a gpt begins as %+v", r.Model)
	}
	if r.SetModel("vit"); r.Model != Default().Model {
		t.Errorf("a vit begins as %+v", r.Model)
	}
}

func TestMarshalQuotesNames(t *testing.T) {
	for _, name := range []string{"12", "true", "null", "1e3", "on", "-", ".nan", "a", "2026-01-01", "0x1", "---", "-a", "..."} {
		r := Default()
		r.Name = name
		if got, err := Parse(Marshal(r)); err != nil || got != r {
			t.Errorf("name %q comes back as %q, %v", name, got.Name, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(Marshal(Default()))
	f.Add([]byte("model: {type: custom}\ndata: {source: custom}"))
	f.Add([]byte("train: {lr: 1e-3, schedule: constant}\nmesh: {strategy: ddp, reshard: false}"))
	f.Add([]byte("data: {source: mnist, path: a, eval: 0}"))
	f.Add([]byte("model: {type: gpt, vocab: 300}\ndata: {source: text}"))
	f.Add([]byte("a: &a [*a, *a]"))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := Parse(text)
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n\r") {
				t.Fatalf("error is not one line: %q", err)
			}
			return
		}
		if err := r.Validate(); err != nil {
			t.Fatalf("Parse accepts what Validate refuses: %v", err)
		}
		again, err := Parse(Marshal(r))
		if err != nil || again != r {
			t.Fatalf("%+v comes back as %+v, %v", r, again, err)
		}
		if !bytes.Equal(r.Canonical(), again.Canonical()) {
			t.Fatal("equal runs have different canonical forms")
		}
	})
}
