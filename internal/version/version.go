// Package version tells which build of Shoal this is.
package version

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// Version is that of this build, see Of. Nothing changes it.
var Version = read()

func read() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "dev"
	}
	return Of(info)
}

// Of is the version of a build in one word: the module's version if it was built as one, which has the commit unless it
// was tagged, else the commit ("+dirty" if files were changed), else "dev".
func Of(info *debug.BuildInfo) string {
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	commit, dirty := "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			commit = s.Value[:min(12, len(s.Value))]
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "+dirty"
		}
	}
	if commit == "" {
		return "dev"
	}
	return commit + dirty
}

// Long is what `shoal version` prints: version, Go version and platform.
func Long() string {
	return fmt.Sprintf("shoal %s %s %s/%s", Version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
