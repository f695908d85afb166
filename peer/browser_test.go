//go:build !js

package peer

import (
	"testing"

	"shoal/internal/browsertest"
)

// browserEnv is how a test in the browser learns the daemon's link.
const browserEnv = "SHOAL_DAEMON"

// inBrowser runs tests of the js build against daemon, in a browser.
func inBrowser(t *testing.T, run string, daemon *Host) {
	t.Helper()
	g := browsertest.GoTest{Dir: browsertest.Build(t, ".", true), Args: []string{"-test.run=" + run, "-test.v"},
		Env: map[string]string{browserEnv: linkTo(daemon).String()}}
	g.Run(t)
}

func linkTo(h *Host) Link {
	return Link{Peer: h.Self(), Addrs: h.Addrs(), Run: "browser", Secret: NewSecret()}
}

// TestBrowser runs what host_js_test.go has in Chromium.
func TestBrowser(t *testing.T) {
	daemon := newTestHost(t, Config{Listen: []string{"127.0.0.1:0"}})
	t.Log(daemon.host.Addrs())
	serve(daemon, echo)
	inBrowser(t, "^TestTab", daemon)
}
