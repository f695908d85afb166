package version

import (
	"runtime/debug"
	"testing"
)

func TestOf(t *testing.T) {
	commit := debug.BuildSetting{Key: "vcs.revision", Value: "0123456789abcdef0123"}
	dirty := debug.BuildSetting{Key: "vcs.modified", Value: "true"}
	for _, tc := range []struct {
		name, module string
		settings     []debug.BuildSetting
		want         string
	}{
		{"a released module", "v1.2.3", nil, "v1.2.3"},
		{"a clean checkout", "(devel)", []debug.BuildSetting{commit}, "0123456789ab"},
		{"a changed checkout", "", []debug.BuildSetting{commit, dirty}, "0123456789ab+dirty"},
		{"no checkout", "(devel)", nil, "dev"},
	} {
		info := &debug.BuildInfo{Main: debug.Module{Version: tc.module}, Settings: tc.settings}
		if got := Of(info); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
}
