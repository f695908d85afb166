package shoal

import (
	"strings"
	"testing"

	"shoal/internal/runfile"
)

func describeSmall(t testing.TB) []byte {
	t.Helper()
	task, err := newTask(t.Context(), *small(), Config{})
	if err != nil {
		t.Fatal(err)
	}
	b, err := task.describe(nil)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestDescriptionRefused(t *testing.T) {
	good := string(describeSmall(t))
	for name, c := range map[string]struct{ text, says string }{
		"not JSON":      {"GET / HTTP/1.1", "not readable"},
		"no run file":   {"{}", "empty"},
		"bad run file":  {strings.Replace(good, "depth: 3", "depth: -3", 1), "model.depth"},
		"another model": {strings.Replace(good, "depth: 3", "depth: 4", 1), "another model"},
	} {
		if _, err := parseDescription(t.Context(), []byte(c.text), Config{}, nil); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want an error that says %q", name, err, c.says)
		}
	}
}

// What a peer that joins is told about the run comes from the network.
func FuzzParseDescription(f *testing.F) {
	f.Add(describeSmall(f))
	f.Add([]byte(`{"run_file":"model: {depth: 1024, dim: 16384}","model":""}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		task, err := parseDescription(t.Context(), b, Config{}, nil)
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Fatalf("an error of two lines: %q", err)
			}
			return
		}
		if again, err := runfile.Parse(runfile.Marshal(task.run)); err != nil || string(again.Canonical()) != string(task.run.Canonical()) {
			t.Fatalf("%s was read as %+v, which reads back as %+v, %v", b, task.run, again, err)
		}
	})
}
