package shoal

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestCheckpointsOnAFullDisk: the disk has room for one checkpoint and a half. The first is saved, the others fail, which is
// said once, and training goes on; what was written of them is gone, and the first is still good.
func TestCheckpointsOnAFullDisk(t *testing.T) {
	want := together(t, peers(1, nil)...)[0]
	full := t.TempDir()
	together(t, keeping(2, full, nil)...)
	list, err := Checkpoints(full)
	if err != nil {
		t.Fatal(err)
	}
	dir := smallDisk(t, fmt.Sprint(list[0].Bytes*7/4))
	said := make([]notices, 2)
	for i, got := range together(t, keeping(2, dir, func(i int, c *Config) { c.OnNotice = said[i].add })...) {
		sameRun(t, want, got)
		if said[i].count("the checkpoint of step 20 was not saved, training goes on") != 1 || said[i].count("no space left on device") != 1 || len(said[i].lines) != 1 {
			t.Errorf("peer %d said %q", i, said[i].lines)
		}
	}
	if got := foldersIn(t, dir); !slices.Equal(got, []string{"step-000000010"}) {
		t.Errorf("%v is there, want the checkpoint of step 10 alone", got)
	}
	if parts, _ := filepath.Glob(filepath.Join(dir, "*", "*.part*")); len(parts) > 0 {
		t.Errorf("%v are left", parts)
	}
	got := together(t, keeping(1, copyFolder(t, dir), func(_ int, c *Config) { c.Resume = true })...)[0]
	if sameRun(t, want, got); got.ResumedStep != 10 {
		t.Errorf("resumed at step %d", got.ResumedStep)
	}
	if _, err := os.Stat(filepath.Join(dir, "run.json")); err != nil {
		t.Error(err)
	}
}
