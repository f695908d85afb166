// Package chromium runs a Chromium without a window, for tests and for the tabs of a testnet.
package chromium

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"
)

// ErrMissing says that there is no Chromium on this machine.
var ErrMissing = errors.New("no chromium, google-chrome or chrome on the PATH (Debian: apt-get install chromium); CHROMIUM names another")

// Find is the path of this machine's Chromium: what CHROMIUM in the environment names, or the first on the PATH.
func Find() (string, error) {
	if name := os.Getenv("CHROMIUM"); name != "" {
		path, err := exec.LookPath(name)
		if err != nil {
			return "", fmt.Errorf("CHROMIUM: %w", err)
		}
		return path, nil
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", ErrMissing
}

// Options say how a browser is started. The zero value is a browser that shows an empty page.
type Options struct {
	URL     string    // what the first tab opens
	Flags   []string  // further ones
	Verbose io.Writer // gets what the browser says; nil: nobody
	Profile string    // folder for its profile; empty: one that goes with it
	// Together has the browser be in this process's group, which a kill or a stop may be meant for.
	Together bool
}

// Browser is a process of Chromium with its helpers, and a profile of its own that goes with it.
type Browser struct {
	cmd     *exec.Cmd
	group   bool // it leads one of its own
	profile string
	remove  bool // the profile, in the end
	exited  chan struct{}
	once    sync.Once
}

const goneWithin = 5 * time.Second

// Start starts one. Close ends it.
func Start(o Options) (*Browser, error) {
	path, err := Find()
	if err != nil {
		return nil, err
	}
	b := &Browser{group: !o.Together, profile: o.Profile, remove: o.Profile == "", exited: make(chan struct{})}
	if b.remove {
		if b.profile, err = os.MkdirTemp("", "shoal-chromium-"); err != nil {
			return nil, fmt.Errorf("chromium: %w", err)
		}
	}
	args := []string{"--headless=new", "--user-data-dir=" + filepath.Join(b.profile, "profile"), "--no-first-run", "--no-default-browser-check",
		"--disable-gpu", "--disable-extensions", "--disable-sync", "--disable-background-networking", "--disable-component-update",
		"--disable-dev-shm-usage", "--mute-audio", "--password-store=basic"}
	if os.Geteuid() == 0 { // its sandbox refuses to be root's
		args = append(args, "--no-sandbox")
	}
	args = append(args, o.Flags...)
	if o.URL == "" {
		o.URL = "about:blank"
	}
	b.cmd = exec.Command(path, append(args, o.URL)...)
	b.cmd.Stdout, b.cmd.Stderr = o.Verbose, o.Verbose
	b.cmd.WaitDelay = goneWithin
	bind(b.cmd, b.group)
	if err := b.cmd.Start(); err != nil {
		b.clean()
		return nil, fmt.Errorf("chromium: %w", err)
	}
	go func() { // ends with the process, see Close
		_ = b.cmd.Wait()
		close(b.exited)
	}()
	return b, nil
}

// PID is that of the browser's main process, which leads a process group of its own where there are such.
func (b *Browser) PID() int { return b.cmd.Process.Pid }

// Profile is the browser's folder; "profile/DevToolsActivePort" in it tells the port if --remote-debugging-port=0 was given.
func (b *Browser) Profile() string { return b.profile }

// Exited is closed once the browser is gone.
func (b *Browser) Exited() <-chan struct{} { return b.exited }

// Kill ends the browser and all its tabs at once, as a power cut would.
func (b *Browser) Kill() { kill(b.cmd, b.group) }

// clean removes a profile that nobody else has named.
func (b *Browser) clean() {
	if b.remove {
		os.RemoveAll(b.profile)
	}
}

// Close ends the browser, politely at first, and removes its profile. It may be called twice.
func (b *Browser) Close() {
	b.once.Do(func() {
		interrupt(b.cmd)
		t := time.NewTimer(goneWithin)
		defer t.Stop()
		select {
		case <-b.exited:
		case <-t.C:
		}
		b.Kill() // its helpers, too
		<-b.exited
		b.clean()
	})
}
