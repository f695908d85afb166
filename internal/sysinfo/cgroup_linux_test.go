package sysinfo

import (
	"os"
	"path/filepath"
	"testing"
)

func TestLimited(t *testing.T) {
	for _, c := range []struct {
		name  string
		files map[string]string
		want  int64
	}{
		{"no control groups", nil, 1000},
		{"version 2, own group", map[string]string{
			"proc/self/cgroup":                  "0::/job/task\n",
			"sys/fs/cgroup/job/task/memory.max": "300\n"}, 300},
		{"version 2, a group above", map[string]string{
			"proc/self/cgroup":                  "0::/job/task\n",
			"sys/fs/cgroup/job/task/memory.max": "max\n",
			"sys/fs/cgroup/job/memory.max":      "400\n"}, 400},
		{"version 2, in a container", map[string]string{
			"proc/self/cgroup":         "0::/\n",
			"sys/fs/cgroup/memory.max": "500\n"}, 500},
		{"version 1", map[string]string{
			"proc/self/cgroup": "5:cpu,memory:/slurm\n4:pids:/x\n",
			"sys/fs/cgroup/memory/slurm/memory.limit_in_bytes": "600\n"}, 600},
		{"more than there is", map[string]string{
			"proc/self/cgroup":         "0::/\n",
			"sys/fs/cgroup/memory.max": "99999999\n"}, 1000},
	} {
		root := t.TempDir()
		for name, text := range c.files {
			file := filepath.Join(root, name)
			if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if got := limited(1000, root); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}
