// Command benchbrowser compares products of matrices by kernel/wasm in a headless Chromium with TensorFlow.js, ONNX Runtime Web
// and this machine's AVX2 kernels, and training steps with those of AVX2, in one page and in turn, and writes docs/browser-speed.md. `make bench-browser` runs it,
// from the module's root, after npm has installed what package.json names. It fails if a limit is missed.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"shoal/internal/chromium"
	"shoal/kernel/wasm"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "benchbrowser:", err)
		os.Exit(1)
	}
}

// The product: a microbatch of 512 positions through a transformer's first MLP layer, and its gradients.
const rows, cols, inner = 512, 1536, 384

func run() error {
	page := flag.String("page", "docs/browser-speed.md", "the `file` to write; - for the terminal")
	rounds := flag.Int("rounds", 40, "how often each one's turn comes")
	slice := flag.Int("slice", 30, "`milliseconds` of a turn")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if *rounds < 1 || *slice < 1 {
		return fmt.Errorf("-rounds %d and -slice %d: want at least 1", *rounds, *slice)
	}
	out, err := measure(ctx, *rounds, *slice)
	if err != nil {
		return err
	}
	text, missed := write(out, *rounds, *slice)
	if *page == "-" {
		os.Stdout.Write(text)
	} else if err := os.WriteFile(*page, text, 0o644); err != nil {
		return err
	}
	return missed
}

// outcome is what the page says at the end.
type outcome struct {
	Fail        string
	Browser     string
	Contestants []contestant
	Steps       [2][]float64 // milliseconds of a training step, native and in the browser; by round
}

type contestant struct {
	Name, Kind, Version string
	GFLOPS              [3][]float64 // NN, NT, TN; by round
}

// check fails if the page has failed, or has not measured everybody.
func (o *outcome) check(rounds int) (*outcome, error) {
	if o.Fail != "" {
		return nil, fmt.Errorf("the page says: %s", o.Fail)
	}
	if len(o.Contestants) != onnxruntime+1 {
		return nil, fmt.Errorf("the page says: %d contestants, want %d", len(o.Contestants), onnxruntime+1)
	}
	for _, c := range o.Contestants {
		for t, x := range c.GFLOPS {
			if len(x) != rounds {
				return nil, fmt.Errorf("the page says: %d turns of %s (%s), want %d", len(x), c.Name, trans[t], rounds)
			}
		}
	}
	for i, x := range o.Steps {
		if len(x) != rounds {
			return nil, fmt.Errorf("the page says: %d turns of training steps by side %d, want %d", len(x), i, rounds)
		}
	}
	return o, nil
}

// buildStep builds the program that trains in the page into dir, with what Go needs there.
func buildStep(ctx context.Context, dir string) error {
	build := exec.CommandContext(ctx, "go", "build", "-o", filepath.Join(dir, "main.wasm"), "./scripts/benchbrowser/step")
	build.Env = append(os.Environ(), "GOOS=js", "GOARCH=wasm")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build the page's program: %w\n%s", err, out)
	}
	root, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return fmt.Errorf("go env GOROOT: %w", err)
	}
	const glue = "wasm_exec.js"
	text, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(root)), "lib", "wasm", glue))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, glue), text, 0o644)
}

// measure opens the page and waits for what it says.
func measure(ctx context.Context, rounds, slice int) (*outcome, error) {
	const folder = "scripts/benchbrowser"
	packages := filepath.Join(folder, "node_modules")
	if _, err := os.Stat(packages); err != nil {
		return nil, fmt.Errorf("%w: run `npm ci` in %s", err, folder)
	}
	dir, err := os.MkdirTemp("", "benchbrowser-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if err := buildStep(ctx, dir); err != nil {
		return nil, err
	}
	native, err := newNative()
	if err != nil {
		return nil, err
	}
	defer native.close()

	done := make(chan outcome, 1)
	mux := http.NewServeMux()
	mux.Handle("/", http.FileServer(http.Dir(filepath.Join(folder, "web"))))
	mux.Handle("/npm/", http.StripPrefix("/npm", http.FileServer(http.Dir(packages))))
	mux.Handle("/kernel/", http.StripPrefix("/kernel", http.FileServerFS(wasm.Files)))
	mux.Handle("/step/", http.StripPrefix("/step", http.FileServer(http.Dir(dir))))
	mux.Handle("POST /native", native)
	mux.HandleFunc("POST /native-step", native.step)
	mux.HandleFunc("POST /done", func(w http.ResponseWriter, r *http.Request) {
		var o outcome
		if err := json.NewDecoder(io.LimitReader(r.Body, 64<<20)).Decode(&o); err != nil {
			o.Fail = err.Error()
		}
		select {
		case done <- o:
		default:
		}
		fmt.Fprint(w, "{}")
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	server := &http.Server{Handler: isolated(mux)}
	go func() { _ = server.Serve(l) }() // ends with Close
	defer server.Close()

	b, err := chromium.Start(chromium.Options{URL: fmt.Sprintf("http://%s/?m=%d&n=%d&k=%d&rounds=%d&slice=%d", l.Addr(), rows, cols, inner, rounds, slice)})
	if err != nil {
		return nil, err
	}
	defer b.Close()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	select {
	case o := <-done:
		return o.check(rounds)
	case <-b.Exited():
		return nil, errors.New("the browser has ended")
	case <-ctx.Done():
		return nil, fmt.Errorf("nothing from the page: %w", ctx.Err())
	}
}

// isolated adds the headers with which a page may share memory between its workers.
func isolated(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cross-Origin-Opener-Policy", "same-origin")
		w.Header().Set("Cross-Origin-Embedder-Policy", "require-corp")
		h.ServeHTTP(w, r)
	})
}
