//go:build !js

package browsertest

import (
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
)

// TestPage: a page runs, says something and has a result; whether it is isolated depends on the headers.
func TestPage(t *testing.T) {
	page := `<!doctype html><title>t</title><script type="module">
	const say = m => fetch("/said", {method: "POST", body: JSON.stringify(m)});
	await say({log: navigator.userAgent});
	await say({done: {isolated: crossOriginIsolated, secure: isSecureContext, cores: navigator.hardwareConcurrency}});
	</script>`
	files := fstest.MapFS{"test.html": {Data: []byte(page)}}
	for _, c := range []struct {
		plain bool
		want  string
	}{{false, `"isolated":true,"secure":true`}, {true, `"isolated":false,"secure":true`}} {
		got := string(Page{Files: map[string]fs.FS{"/": files}, Path: "/test.html", Plain: c.plain}.Run(t))
		if !strings.Contains(got, c.want) {
			t.Errorf("plain %v: %s", c.plain, got)
		}
	}
}
