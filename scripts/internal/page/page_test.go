package page

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestWrite(t *testing.T) {
	const line = "<!-- tables of make x -->\n"
	file := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(file, []byte("before\n"+line+"old\n"+end+"after\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time must not add anything
		if err := Write(file, "make x", []byte("new\n")); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(file)
	if want := "before\n" + line + "new\n" + end + "after\n"; err != nil || string(text) != want {
		t.Errorf("page %q, %v, want %q", text, err, want)
	}
	for _, text := range []string{"", line, end + line, strings.ReplaceAll(line, "x", "y") + end} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := Write(file, "make x", nil); err == nil || !strings.HasPrefix(err.Error(), file) {
			t.Errorf("the page %q: %v", text, err)
		}
	}
}
