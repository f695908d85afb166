package runfile

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Canonical is r as stable bytes, for the run id: equal runs give equal bytes, whatever their files look like.
func (r Run) Canonical() []byte {
	var b bytes.Buffer
	b.WriteString("shoal run file 1\n")
	for _, line := range r.lines() {
		b.WriteString(line + "\n")
	}
	return b.Bytes()
}

// lines are the keys that are part of the run, with their values.
func (r Run) lines() (lines []string) {
	for _, f := range fields(&r) {
		if !f.off && !f.local {
			lines = append(lines, f.key+"="+f.text())
		}
	}
	return lines
}

// Result is the part of Canonical that the result depends on: not how the work is shared out, travels and is kept. A run
// goes on from a checkpoint of a run with the same Result.
func (r Run) Result() []string {
	return slices.DeleteFunc(r.lines(), func(line string) bool {
		section, _, _ := strings.Cut(line, ".")
		return section == "mesh" || section == "wire" || section == "checkpoint"
	})
}

// Marshal is r as a run file with a comment on each key. Parse reads it back as r if r is valid.
func Marshal(r Run) []byte {
	var b bytes.Buffer
	b.WriteString("# A run of Shoal. Missing keys have the values shown by `shoal init`; docs/run-file.md explains each.\n\n")
	section := ""
	for _, f := range fields(&r) {
		if f.off || f.local && f.zero() {
			continue
		}
		at, key, inner := strings.Cut(f.key, ".")
		indent := ""
		if inner {
			indent = "  "
			if at != section {
				fmt.Fprintf(&b, "\n%s:\n", at)
				section = at
			}
		} else {
			key = at
		}
		comment := f.help
		if strings.HasPrefix(f.allowed, "`") {
			comment += " (" + f.allowed + ")"
		}
		fmt.Fprintf(&b, "%-26s# %s\n", indent+key+": "+scalar(f.text(), f.value), strings.ReplaceAll(comment, "`", ""))
	}
	return b.Bytes()
}

// scalar is a value as YAML has it: a text that would read as a number or a truth value is quoted.
func scalar(text string, value any) string {
	if _, isText := value.(*string); isText {
		if quoted, err := yaml.Marshal(text); err == nil {
			return strings.TrimSpace(string(quoted)) + " "
		}
	}
	return text + " "
}
