package deptest

import (
	"os"
	"testing"

	"golang.org/x/tools/go/packages"
)

// TestOtherPlatforms checks the types of the whole program for platforms that it is built for and not tested on. That finds
// what is missing there in a few seconds, where compiling takes minutes.
func TestOtherPlatforms(t *testing.T) {
	if testing.Short() {
		t.Skip("reads the whole program and all that it imports")
	}
	for _, p := range []struct{ os, arch string }{{"linux", "arm64"}, {"darwin", "arm64"}, {"windows", "amd64"}} {
		t.Run(p.os+"-"+p.arch, func(t *testing.T) {
			found, err := packages.Load(&packages.Config{
				Context: t.Context(),
				Mode:    packages.LoadAllSyntax,
				Dir:     "../..",
				Env:     append(os.Environ(), "GOOS="+p.os, "GOARCH="+p.arch, "CGO_ENABLED=0"),
			}, "./...")
			if err != nil {
				t.Fatal(err)
			}
			checked := 0
			packages.Visit(found, nil, func(p *packages.Package) {
				checked++
				for _, e := range p.Errors {
					t.Error(e)
				}
			})
			if checked < 500 {
				t.Errorf("%d packages checked, which cannot be all", checked)
			}
		})
	}
}
