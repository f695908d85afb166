// Command dist builds the program for each platform and packs it with licence and README, one archive each, and their
// checksums in SHA256SUMS. The same commit and Go version give the same bytes, wherever they are built. `make dist` runs
// it, from the module's root.
package main

import (
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"shoal/internal/version"
)

const allPlatforms = "linux-amd64 linux-arm64 darwin-amd64 darwin-arm64 windows-amd64 windows-arm64"

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "dist:", err)
		os.Exit(1)
	}
}

func run() error {
	out := flag.String("out", "build/dist", "`folder` for the archives")
	platforms := flag.String("platforms", allPlatforms, "what to build for, as GOOS-GOARCH, with spaces between")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	at, err := commitTime(ctx)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(*out, 0o755); err != nil {
		return err
	}
	texts, err := read("LICENSE", "README.md")
	if err != nil {
		return err
	}
	var sums strings.Builder
	for _, platform := range strings.Fields(*platforms) {
		name, archive, err := pack(ctx, platform, texts, at)
		if err != nil {
			return fmt.Errorf("%s: %w", platform, err)
		}
		if err := os.WriteFile(filepath.Join(*out, name), archive, 0o644); err != nil {
			return err
		}
		fmt.Printf("%s  %.1f MiB\n", filepath.Join(*out, name), float64(len(archive))/(1<<20))
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(archive), name)
	}
	return os.WriteFile(filepath.Join(*out, "SHA256SUMS"), []byte(sums.String()), 0o644)
}

// commitTime is when the checked-out commit was made.
func commitTime(ctx context.Context) (time.Time, error) {
	text, err := exec.CommandContext(ctx, "git", "log", "-1", "--format=%ct").Output()
	if err != nil {
		return time.Time{}, fmt.Errorf("git log: %w: archives are built from a git checkout, whose commit they name", err)
	}
	seconds, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("git log: %w", err)
	}
	return time.Unix(seconds, 0).UTC(), nil
}

func read(names ...string) (files []file, err error) {
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		files = append(files, file{name, 0o644, text})
	}
	return files, nil
}

// pack builds for one platform and returns the archive and its name.
func pack(ctx context.Context, platform string, texts []file, at time.Time) (name string, archive []byte, err error) {
	system, arch, ok := strings.Cut(platform, "-")
	if !ok {
		return "", nil, errors.New("it is not of the form GOOS-GOARCH")
	}
	program := file{name: "shoal", mode: 0o755}
	if system == "windows" {
		program.name += ".exe"
	}
	var built string
	if program.data, built, err = build(ctx, system, arch); err != nil {
		return "", nil, err
	}
	folder := "shoal-" + built + "-" + platform
	files := append([]file{program}, texts...)
	if system == "windows" {
		archive, err = zipped(folder, files, at)
		return folder + ".zip", archive, err
	}
	archive, err = tarGz(folder, files, at)
	return folder + ".tar.gz", archive, err
}

// build returns the program for a platform, and the version that it tells of itself.
func build(ctx context.Context, system, arch string) (program []byte, built string, err error) {
	dir, err := os.MkdirTemp("", "shoal-dist-")
	if err != nil {
		return nil, "", err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "shoal")
	// -buildvcs=true: an error where the commit can't be told.
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=true", "-ldflags=-s -w", "-o", path, "./cmd/shoal")
	cmd.Env = append(os.Environ(), "GOOS="+system, "GOARCH="+arch, "CGO_ENABLED=0", "GOAMD64=v1", "GOARM64=v8.0")
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return nil, "", fmt.Errorf("go build: %w", err)
	}
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return nil, "", err
	}
	program, err = os.ReadFile(path)
	return program, version.Of(info), err
}
