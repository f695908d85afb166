//go:build !js

package ref_test

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// Go's compiler fuses x*y + z on arm64 where the source allows it, and no test on amd64 would see it. So this test reads
// the arm64 code of the plain Go ops: the only fused instruction is the float64 one in FMA, where it changes nothing
// because the product is exact.
func TestNothingFusesOnArm64(t *testing.T) {
	cmd := exec.Command("go", "build", "-gcflags=-S", "shoal/kernel/ref", "shoal/kernel/cpu")
	cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH=arm64", "CGO_ENABLED=0")
	code, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%.2000s", cmd, err, code)
	}
	if !strings.Contains(string(code), "FMULS") {
		t.Fatalf("%v printed no arm64 code", cmd)
	}
	fused := regexp.MustCompile(`\bFN?M(ADD|SUB)[SD]\b`)
	for line := range strings.Lines(string(code)) {
		if fused.MatchString(line) && !strings.Contains(line, "ref/fma.go") {
			t.Errorf("fused: %s", line)
		}
	}
}
