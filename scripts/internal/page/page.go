// Package page is what the programs have in common that write measurements into a page of docs.
package page

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
)

const end = "<!-- end -->\n"

// begin is the line behind which maker, as in "make compare", puts its tables.
func begin(maker string) string { return fmt.Sprintf("<!-- tables of %s -->\n", maker) }

// Put replaces what stands in a page between maker's line and the next end. An error says which line the page lacks.
func Put(page []byte, maker string, tables []byte) ([]byte, error) {
	before, rest, ok := bytes.Cut(page, []byte(begin(maker)))
	_, after, ok2 := bytes.Cut(rest, []byte(end))
	if !ok || !ok2 {
		return nil, fmt.Errorf("it lacks the lines %q and %q", begin(maker), end)
	}
	return slices.Concat(before, []byte(begin(maker)), tables, []byte(end), after), nil
}

// Check says what a page lacks to get maker's tables.
func Check(file, maker string) error {
	text, err := os.ReadFile(file)
	if err == nil {
		_, err = Put(text, maker, nil)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}

// Write is Put on a file.
func Write(file, maker string, tables []byte) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if text, err = Put(text, maker, tables); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return os.WriteFile(file, text, 0o644)
}

// Machine says where it was measured, as in "2 cores of AMD EPYC, linux".
func Machine() string {
	cpu := runtime.GOARCH
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil { // Linux
		for line := range strings.Lines(string(text)) {
			if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
				cpu = strings.TrimSpace(value)
			}
		}
	}
	return fmt.Sprintf("%d cores of %s, %s", runtime.NumCPU(), cpu, runtime.GOOS)
}
