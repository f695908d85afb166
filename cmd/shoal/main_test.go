package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"shoal/internal/runfile"
)

func TestWrongUsage(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := file("good.yaml", "train: {steps: 1, warmup: 0}")
	for _, tc := range []struct {
		name string
		args []string
		want string // part of the line
	}{
		{"unknown command", []string{"fly"}, `unknown command "fly"`},
		{"unknown flag", []string{"join", "--fly", "x"}, "unknown flag: --fly"},
		{"no run file", []string{"up"}, "needs a run file"},
		{"two run files", []string{"up", good, good}, "does not take"},
		{"missing file", []string{"up", filepath.Join(dir, "none.yaml")}, "none.yaml"},
		{"a folder as file", []string{"up", dir}, "run file"},
		{"bad key", []string{"up", file("key.yaml", "model: {dims: 3}")}, `unknown key "model.dims"`},
		{"bad value", []string{"up", file("value.yaml", "mesh: {backups: 9}")}, "mesh.backups"},
		{"frozen pattern without a match", []string{"up", file("frozen.yaml", "train: {frozen: nothing.like.it}")}, "train.frozen: no parameter's name matches"},
		{"frozen pattern without a match, of all", []string{"testnet", "--run", file("frozen.yaml", "train: {frozen: nothing.like.it}")}, "train.frozen: no parameter's name matches"},
		{"everything frozen", []string{"testnet", "--run", file("all.yaml", "train: {frozen: '*'}")}, "train.frozen: \"*\" leaves nothing to train"},
		{"no YAML", []string{"up", file("none.txt", "a: b: c\n\x1b[31m")}, "run file"},
		{"no peers", []string{"up", good, "--peers", "0"}, "--peers: 0"},
		{"too many peers", []string{"up", good, "--peers", "33"}, "--peers: 33"},
		{"little memory", []string{"up", good, "--memory", "1KiB"}, "--memory: 1024 bytes is too little"},
		{"absurd memory", []string{"up", good, "--memory", "99999999TiB"}, "--memory: \"99999999TiB\" is more than any machine has"},
		{"many cores", []string{"up", good, "--cores", "5000"}, "--cores: 5000"},
		{"cores that are no number", []string{"up", good, "--cores", "x"}, `--cores: "x" is not allowed here, use a whole number, see`},
		{"unknown kernel", []string{"up", good, "--kernel", "foo"}, "generic"},
		{"unknown kernel of all", []string{"testnet", "--kernel", "foo"}, "--kernel: this machine has no"},
		{"unknown kernel of a benchmark", []string{"bench", "kernels", "--kernel", "foo"}, "--kernel: this machine has no"},
		{"a benchmark on no cores", []string{"bench", "kernels", "--cores", "-1"}, "--cores: -1"},
		{"a benchmark of no steps", []string{"bench", "step", "--steps", "0"}, "--steps: 0 is not allowed here"},
		{"a benchmark of too many peers", []string{"bench", "step", "--peers", "33"}, "--peers: 33"},
		{"a benchmark of no run file", []string{"bench", "step", "--run", filepath.Join(dir, "none.yaml")}, "none.yaml"},
		{"unknown benchmark", []string{"bench", "fly"}, `unknown command "fly", see ` + "`shoal help bench`"},
		{"a plan of no run file", []string{"plan", filepath.Join(dir, "none.yaml")}, "none.yaml"},
		{"a plan of no peers", []string{"plan", good, "--peers", "0"}, "--peers: 0"},
		{"a plan of too many peers", []string{"plan", good, "--peers", "99"}, "--peers: 99"},
		{"a plan of more peers here than there are", []string{"plan", good, "--peers", "2", "--here", "3"}, "--here: 3"},
		{"a plan with half a core", []string{"plan", good, "--cores", "0.5"}, `--cores: "0.5" is not allowed here, use a whole number`},
		{"a plan with a fast network", []string{"plan", good, "--link", "fast"}, `--link: "fast" is no speed of a network`},
		{"a plan with a negative network", []string{"plan", good, "--link", "-1Mbit"}, `--link: "-1Mbit" is no speed of a network`},
		{"a plan with a latency of no network", []string{"plan", good, "--latency", "20ms"}, "--latency: say how fast the network is"},
		{"a plan with a negative latency", []string{"plan", good, "--link", "1Gbit", "--latency", "-20ms"}, "--latency: -20ms"},
		{"a plan of a custom model", []string{"plan", file("own.yaml", "{model: {type: custom}, data: {source: custom}}")}, "start the run by that program"},
		{"a run by no plan", []string{"up", good, "--plan", filepath.Join(dir, "none.json")}, "--plan: open "},
		{"no address to listen on", []string{"up", good, "--listen", "foo"}, "--listen: "},
		{"no address to announce", []string{"up", good, "--announce", "foo"}, "--announce: "},
		{"identity in no folder", []string{"up", good, "--identity", filepath.Join(dir, "none", "key")}, "--identity: there is no folder"},
		{"custom data", []string{"testnet", "--data", "custom"}, "examples/ownmodel"},
		{"custom model", []string{"testnet", "--model", "custom"}, "examples/ownmodel"},
		{"custom run file", []string{"up", file("custom.yaml", "{model: {type: custom}, data: {source: custom}}")}, "start the run by that program"},
		{"model that is no section", []string{"up", file("flat.yaml", "model: vit")}, "model: is a section"},
		{"negative time", []string{"testnet", "--timeout", "-1s"}, "--timeout: -1s"},
		{"no time", []string{"testnet", "--timeout", "x"}, `--timeout: "x" is not allowed here, use a time, as in 90s`},
		{"no steps", []string{"testnet", "--steps", "x"}, `--steps: "x" is not allowed here, use a whole number`},
		{"negative seed", []string{"testnet", "--seed", "-1"}, `--seed: "-1" is not allowed here, use a whole number from 0`},
		{"neither true nor false", []string{"testnet", "--reshard", "maybe"}, `--reshard: "maybe" is not allowed here, use true or false`},
		{"bad size", []string{"up", good, "--memory", "lots"}, `"lots" is no size`},
		{"bad cores", []string{"join", "shoal:x", "--cores", "-2"}, "--cores"},
		{"no link", []string{"join"}, "needs the link"},
		{"empty link", []string{"join", ""}, "link is empty"},
		{"a link and a name", []string{"join", "shoal:x", "--lan", "digits"}, "neither a link nor --via"},
		{"a name and an address", []string{"join", "--lan", "digits", "--via", "192.0.2.1:1"}, "neither a link nor --via"},
		{"a run id without its secret", []string{"join", "00ff", "--via", "192.0.2.1:1"}, "RUN-ID.SECRET"},
		{"a link and an address", []string{"join", "shoal:x", "--via", "192.0.2.1:1"}, "needs no address"},
		{"a short form without an address", []string{"join", strings.Repeat("0A", 16) + "." + strings.Repeat("0", 32)}, "add --via HOST:PORT"},
		{"a short form that is cut short", []string{"join", strings.Repeat("0a", 16) + ".07", "--via", "192.0.2.1:1"}, "this secret has 2 characters"},
		{"a short form that is mistyped", []string{"join", strings.Repeat("0x", 16) + "." + strings.Repeat("0", 32), "--via", "192.0.2.1:1"}, "this run id has others"},
		{"an empty name", []string{"up", good, "--lan", ""}, "--lan: the name is empty"},
		{"an empty name to join", []string{"join", "--lan", ""}, "--lan: the name is empty"},
		{"a name that is none", []string{"up", good, "--lan", "a b"}, "--lan: \"a b\" is no name"},
		{"garbage link", []string{"join", "shoal:garbage"}, "link"},
		{"no link at all", []string{"join", "hello"}, "link"},
		{"weights and peers", []string{"testnet", "--peers", "3", "--weights", "1,2"}, "weights"},
		{"bad weights", []string{"testnet", "--weights", "1,x"}, `--weights: "1,x" is not allowed here, use whole numbers`},
		{"overridden key", []string{"testnet", "--strategy", "zero9"}, "mesh.strategy"},
		{"overridden data", []string{"testnet", "--data", "imagenet"}, "data.source"},
		{"overridden data of tokens", []string{"testnet", "--data", "text:x"}, "data.source: text is tokens, for model.type gpt"},
		{"path of digits", []string{"testnet", "--data", "digits:x"}, "data.path"},
		{"overridden model", []string{"testnet", "--model", "rnn"}, "model.type"},
		{"overridden steps", []string{"testnet", "--steps", "0"}, "train.steps"},
		{"no arguments", []string{"version", "x"}, "does not take"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			code := run(t.Context(), tc.args, strings.NewReader(""), &stdout, &stderr)
			if code != exitWrongInput {
				t.Errorf("exit code %d, want %d", code, exitWrongInput)
			}
			if stdout.Len() > 0 {
				t.Errorf("stdout got %q", stdout.String())
			}
			line := stderr.String()
			if !strings.HasPrefix(line, "shoal: ") || strings.Count(line, "\n") != 1 || !strings.HasSuffix(line, "\n") {
				t.Errorf("stderr got %q, want one line", line)
			}
			if strings.Contains(line, "strconv") || strings.Contains(line, "time:") {
				t.Errorf("stderr got %q, which speaks of Go", line)
			}
			if !strings.Contains(line, tc.want) || strings.Contains(line, "\x1b") {
				t.Errorf("stderr got %q, want something with %q", line, tc.want)
			}
		})
	}
}

func TestPlainCommands(t *testing.T) {
	for _, tc := range []struct {
		args []string
		want string
	}{
		{nil, "Usage:\n  shoal COMMAND\n"},
		{nil, "\n  completion "},
		{[]string{"completion", "bash"}, "complete"},
		{[]string{"help"}, "testnet"},
		{[]string{"help", "up"}, "--peers"},
		{[]string{"join", "--help"}, "--memory"},
		{[]string{"version"}, "shoal "},
		{[]string{"init"}, string(runfile.Marshal(runfile.Default()))},
	} {
		var stdout, stderr bytes.Buffer
		if code := run(t.Context(), tc.args, strings.NewReader(""), &stdout, &stderr); code != exitOK || stderr.Len() > 0 {
			t.Errorf("%q: exit code %d, stderr %q", tc.args, code, stderr.String())
		}
		if !strings.Contains(stdout.String(), tc.want) {
			t.Errorf("%q: %q is not in %q", tc.args, tc.want, stdout.String())
		}
		for line := range strings.Lines(stdout.String()) {
			if len(line) > 81 && len(tc.args) > 0 && tc.args[0] != "init" && tc.args[0] != "completion" {
				t.Errorf("%q: a line of %d columns: %q", tc.args, len(line), line)
			}
		}
	}
}

func TestInitIsARunFile(t *testing.T) {
	var stdout bytes.Buffer
	run(t.Context(), []string{"init"}, strings.NewReader(""), &stdout, &stdout)
	got, err := runfile.Parse(stdout.Bytes())
	if err != nil || got != runfile.Default() {
		t.Errorf("init printed %+v, %v", got, err)
	}
}

func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errInterrupted)
	var stdout, stderr bytes.Buffer
	code := run(ctx, []string{"up", "-", "--listen", "127.0.0.1:0", "--peers", "2"}, strings.NewReader("train: {steps: 1, warmup: 0}"), &stdout, &stderr)
	if code != exitInterrupted || stderr.String() != "shoal: interrupted\n" {
		t.Errorf("exit code %d, stderr %q", code, stderr.String())
	}
}

func TestOneLine(t *testing.T) {
	if got, want := oneLine("a\n\tb\r\n\nc\x1b[31m"), "a; b; c [31m"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestLinkInQuotes(t *testing.T) {
	for _, text := range []string{"shoal:abc", " shoal:abc\n", `"shoal:abc"`, "<shoal:abc>", "“shoal:abc”,", "('shoal:abc').", "<http://localhost:4780/#shoal:abc>"} {
		if got := bareLink(text); got != "shoal:abc" {
			t.Errorf("%q is taken for %q", text, got)
		}
	}
}

// Each command begins its help with examples.
func TestHelpHasExamplesFirst(t *testing.T) {
	root := (&app{stdin: strings.NewReader(""), stdout: io.Discard, stderr: io.Discard}).root()
	for _, cmd := range append(root.Commands(), root) {
		if cmd.Name() == "version" || cmd.Name() == "help" || cmd.Name() == "completion" {
			continue
		}
		text := cmd.UsageString()
		if !strings.HasPrefix(text, "Examples:\n  shoal ") || !strings.Contains(text, "\n\nUsage:\n  shoal ") {
			t.Errorf("%s: %q", cmd.Name(), text)
		}
	}
}
