package runfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"
)

// MaxBytes is the largest run file.
const MaxBytes = 1 << 20

// Parse reads a run file. A missing key has its default. A key that has no meaning with the model's type or the data's
// source is not allowed, and zero. An error is one line that names the place, the key and what is
// allowed.
func Parse(text []byte) (Run, error) {
	root, err := document(text)
	if err != nil {
		return Run{}, fmt.Errorf("run file: %w", err)
	}
	r := everything()
	p := parser{fields: map[string]*field{}, lines: map[string]int{}}
	list := fields(&r)
	for i := range list {
		p.fields[list[i].key] = &list[i]
	}
	f := p.mapping("", root)
	if f == nil {
		f = p.clearForeign(&r)
	}
	if f == nil {
		if f = r.fault(); f != nil {
			f.line = p.lines[f.key]
		}
	}
	if f != nil {
		return Run{}, fmt.Errorf("run file: %w", f)
	}
	return r, nil
}

// document is the root of the only YAML document in text. Aliases in it are not expanded.
func document(text []byte) (*yaml.Node, error) {
	if len(text) > MaxBytes {
		return nil, fmt.Errorf("%d bytes are too many, at most %d are allowed", len(text), MaxBytes)
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	var doc, second yaml.Node
	switch err := d.Decode(&doc); {
	case errors.Is(err, io.EOF) || err == nil && (len(doc.Content) == 0 || doc.Content[0].Tag == "!!null"):
		return nil, errors.New("it is empty")
	case err != nil:
		return nil, syntax(err)
	}
	switch err := d.Decode(&second); {
	case errors.Is(err, io.EOF):
		return doc.Content[0], nil
	case err != nil:
		return nil, syntax(err)
	}
	return nil, fmt.Errorf("line %d: a second document begins, only one is allowed", second.Line)
}

// syntax is the parser's message on one line.
func syntax(err error) error {
	line, _, _ := strings.Cut(strings.TrimPrefix(err.Error(), "yaml: "), "\n")
	return errors.New(line)
}

// A parser fills fields from YAML nodes and remembers where each key was.
type parser struct {
	fields map[string]*field
	lines  map[string]int
}

// mapping reads the keys of one section; the whole file is the section "".
func (p *parser) mapping(section string, n *yaml.Node) *fault {
	if f := odd(section, n); f != nil {
		return f
	}
	if n.Kind != yaml.MappingNode {
		if section == "" {
			return &fault{line: n.Line, problem: "a run file has sections such as `train: {steps: 100}`, this has none"}
		}
		return &fault{line: n.Line, key: section, problem: fmt.Sprintf("is a section, write it as `%s: {key: value, ...}`, with the keys %s", section, p.keys(section))}
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		if f := odd(section, k); f != nil {
			return f
		}
		key := k.Value
		if section != "" {
			key = section + "." + key
		}
		if p.lines[key] != 0 && k.Kind == yaml.ScalarNode {
			return &fault{line: k.Line, problem: fmt.Sprintf("key %s is there twice, first on line %d", short(key), p.lines[key])}
		}
		if f := p.value(section, key, k, v); f != nil {
			return f
		}
	}
	return nil
}

// value reads what belongs to one key.
func (p *parser) value(section, key string, k, v *yaml.Node) *fault {
	field := p.fields[key]
	isSection := section == "" && !strings.Contains(key, ".") && p.keys(key) != ""
	if k.Kind != yaml.ScalarNode || section == "" && strings.Contains(key, ".") || field == nil && !isSection {
		where := "a run file has "
		if section != "" {
			where = section + " has "
		}
		return &fault{line: k.Line, problem: fmt.Sprintf("unknown key %s, %s%s", short(key), where, p.keys(section))}
	}
	p.lines[key] = k.Line
	if isSection {
		return p.mapping(key, v)
	}
	if f := odd(key, v); f != nil {
		return f
	}
	text := v.Value
	switch v.Kind {
	case yaml.MappingNode:
		text = "a mapping"
	case yaml.SequenceNode:
		text = "a list"
	}
	if v.Kind != yaml.ScalarNode || !field.set(v.ShortTag(), text) || !field.ok() {
		f := field.refuse(text)
		f.line = v.Line
		return f
	}
	return nil
}

// odd refuses the parts of YAML that a run file does not need.
func odd(key string, n *yaml.Node) *fault {
	switch {
	case n.Kind == yaml.AliasNode || n.Anchor != "":
		return &fault{line: n.Line, key: key, problem: "anchors and aliases (& and *) are not allowed"}
	case n.Style&yaml.TaggedStyle != 0:
		return &fault{line: n.Line, key: key, problem: "tags (!) are not allowed"}
	}
	return nil
}

// keys lists the keys of a section, those of the whole file if it is "", none if there is no such section.
func (p *parser) keys(section string) string {
	var keys []string
	var r Run
	for _, f := range fields(&r) {
		at, key, inner := strings.Cut(f.key, ".")
		switch {
		case section == "" && (len(keys) == 0 || keys[len(keys)-1] != at):
			keys = append(keys, at)
		case section != "" && inner && at == section:
			keys = append(keys, key)
		}
	}
	return strings.Join(keys, ", ")
}

// clearForeign empties the keys that have no meaning in r, and refuses those that the file has.
func (p *parser) clearForeign(r *Run) *fault {
	list := fields(r)
	for i := range list {
		f := &list[i]
		if !f.off {
			continue
		}
		if line := p.lines[f.key]; line != 0 {
			return &fault{line: line, key: f.key, problem: "has no meaning with " + r.kindOf(f.key) + ", leave it out"}
		}
		f.clear()
	}
	return nil
}
