//go:build (!amd64 && !arm64) || noasm

package cpu

// selectLoops picks the inner loops for a code path.
func selectLoops(string) loops { return loopsGeneric }
