// Package buildwasm builds the browser's peer from this module's source, and compresses it.
package buildwasm

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"shoal/wasm/web"
)

// ErrNoSource says that the program can't be built here.
var ErrNoSource = errors.New("the source of shoal is not here, or there is no go command: run this in its folder")

// A Packer compresses the peer, into a file with a further ending.
type Packer struct {
	Ending string // as in ".gz"
	Pack   func([]byte) ([]byte, error)
}

// Gzip is the Packer that every browser understands, at a level of compress/gzip.
func Gzip(level int) Packer {
	return Packer{".gz", func(data []byte) ([]byte, error) {
		var b bytes.Buffer
		z, err := gzip.NewWriterLevel(&b, level) // its header has no name and no time
		if err == nil {
			_, err = z.Write(data)
		}
		if err == nil {
			err = z.Close()
		}
		return b.Bytes(), err
	}}
}

// Build builds the peer into the folder out: shoal-HASH.wasm with the ending of each Packer, Go's wasm_exec.js, and web.Script.
// What an earlier build of the same peer has packed there stays, all else of it goes. It returns the peer's size in bytes, as it is and by ending.
func Build(ctx context.Context, out string, packers ...Packer) (size int, packed map[string]int, err error) {
	root, err := source(ctx)
	if err != nil {
		return 0, nil, err
	}
	dir, err := os.MkdirTemp("", "shoal-wasm-")
	if err != nil {
		return 0, nil, err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "shoal.wasm")
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", file, "./wasm")
	cmd.Dir, cmd.Env = root, append(os.Environ(), "GOOS=js", "GOARCH=wasm", "CGO_ENABLED=0")
	if said, err := cmd.CombinedOutput(); err != nil {
		return 0, nil, fmt.Errorf("go build for the browser: %w: %s", err, bytes.TrimSpace(said))
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return 0, nil, err
	}
	goroot, err := goTool(ctx, root, "env", "GOROOT")
	if err != nil {
		return 0, nil, err
	}
	script, err := os.ReadFile(filepath.Join(goroot, "lib", "wasm", "wasm_exec.js"))
	if err != nil {
		return 0, nil, err
	}
	name := fmt.Sprintf("shoal-%x.wasm", sha256.Sum256(data))[:len("shoal-")+16] + ".wasm"
	if err := clear(out, name); err != nil {
		return 0, nil, err
	}
	packed = map[string]int{}
	for _, p := range packers {
		if packed[p.Ending], err = p.into(filepath.Join(out, name+p.Ending), data); err != nil {
			return 0, nil, err
		}
	}
	if err := os.WriteFile(filepath.Join(out, "wasm_exec.js"), script, 0o644); err != nil {
		return 0, nil, err
	}
	// Last: with it the build is there.
	return len(data), packed, os.WriteFile(filepath.Join(out, web.Script), fmt.Appendf(nil, "export const wasm = %q;\n", name), 0o644)
}

// into packs data into a file, unless it is there, and returns its size in bytes.
func (p Packer) into(file string, data []byte) (int, error) {
	if info, err := os.Stat(file); err == nil {
		return int(info.Size()), nil
	}
	b, err := p.Pack(data)
	if err != nil {
		return 0, err
	}
	part := file + ".part" // an interrupted build leaves no file that looks whole
	if err := os.WriteFile(part, b, 0o644); err != nil {
		return 0, err
	}
	return len(b), os.Rename(part, file)
}

// clear makes the folder, and removes what builds of other peers than name have left.
func clear(out, name string) error {
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	old, err := filepath.Glob(filepath.Join(out, "shoal-*.wasm*"))
	if err != nil {
		return err
	}
	for _, file := range append(old, filepath.Join(out, web.Script)) {
		if base := filepath.Base(file); strings.HasPrefix(base, name) && !strings.HasSuffix(base, ".part") {
			continue
		}
		if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}

// source is the module's folder.
func source(ctx context.Context) (string, error) {
	dir, err := goTool(ctx, "", "list", "-m", "-f", "{{.Path}} {{.Dir}}", "shoal")
	path, root, _ := strings.Cut(dir, " ")
	if err != nil || path != "shoal" || root == "" {
		return "", ErrNoSource
	}
	return root, nil
}

func goTool(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("go %s: %w", args[0], err)
	}
	return strings.TrimSpace(string(out)), nil
}
