//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"

	"shoal/internal/wirebench"
)

// wire runs `shoal bench wire` with so many arguments more.
func wire(t *testing.T, args ...string) (stdout string, code int, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	code = run(t.Context(), append([]string{"bench", "wire"}, args...), strings.NewReader(""), &out, &err)
	return out.String(), code, err.String()
}

func checkWireJSON(t *testing.T, text string) {
	t.Helper()
	var r wirebench.Result
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil {
		t.Fatal(err)
	}
	if r.Connection != "tcp, TLS, yamux" || r.RoundTrip.Idle <= 0 || r.Put.MBS <= 0 || r.Get.MBS <= 0 || r.Both.MBS <= 0 || len(r.Packing) != 3 {
		t.Errorf("got %+v", r)
	}
}

func TestBenchWire(t *testing.T) {
	table, code, stderr := wire(t)
	if code != exitOK || stderr != "" {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	for _, want := range []string{"tcp, TLS, yamux: round trip ", "\nthere ", "\nback ", "\nboth ways at once ", "\nparameters, bf16 ", "\nparameters, float32 ", "\ngradients, fixed32 "} {
		if !strings.Contains(table, want) {
			t.Errorf("no %q in\n%s", want, table)
		}
	}
}

// Both ends end by themselves.
func TestBenchWireTwoEnds(t *testing.T) {
	p := startProgram(t, "bench", "wire", "--listen", "127.0.0.1:0")
	var address string
	for line := range p.stdout {
		if rest, ok := strings.CutPrefix(line, "  shoal bench wire "); ok {
			address = rest
			break
		}
	}
	if !strings.HasPrefix(address, "/ip4/127.0.0.1/tcp/") {
		t.Fatalf("it listens at %q", address)
	}
	text, code, stderr := wire(t, "--json", address)
	if code != exitOK {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	checkWireJSON(t, text)
	<-p.exited
	if code := p.cmd.ProcessState.ExitCode(); code != exitOK {
		t.Errorf("the end that listens: exit code %d", code)
	}
	if _, code, stderr := wire(t, address); code != exitFailed || !strings.Contains(stderr, "can't be reached") || strings.Count(stderr, "\n") != 1 {
		t.Errorf("nobody is there: exit code %d, %q", code, stderr)
	}
}

func TestBenchWireInterrupted(t *testing.T) {
	p := startProgram(t, "bench", "wire", "--listen", "127.0.0.1:0", "--json")
	var all wireAddresses
	if err := json.Unmarshal([]byte(<-p.stdout), &all); err != nil || len(all.Addresses) != 4 {
		t.Fatalf("got %+v, %v", all, err)
	}
	p.cmd.Process.Signal(syscall.SIGINT)
	<-p.exited
	if code := p.cmd.ProcessState.ExitCode(); code != exitInterrupted {
		t.Errorf("exit code %d", code)
	}
}

// An end whose parent goes away does not stay.
func TestBenchWireChild(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), self(t), "bench", "wire", "--listen", "127.0.0.1:0", "--child")
	if err := cmd.Run(); err == nil || cmd.ProcessState.ExitCode() != exitInterrupted {
		t.Errorf("it ends with %v", err)
	}
}

func TestBenchWireUsage(t *testing.T) {
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"192.0.2.7:4001"}, "want a multiaddr that ends with /p2p/"},
		{[]string{"/ip4/192.0.2.7/tcp/4001/p2p/x"}, "is not a peer id"},
		{[]string{"one", "two"}, `does not take "two"`},
		{[]string{"--listen", "nowhere"}, "--listen: "},
		{[]string{"--listen", "127.0.0.1:0", "/ip4/192.0.2.7/tcp/4001"}, "leave the address away"},
		{[]string{"--peers", "2"}, "unknown flag: --peers"},
	} {
		_, code, stderr := wire(t, tc.args...)
		if code != exitWrongInput || !strings.Contains(stderr, tc.want) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%q: exit code %d, %q", tc.args, code, stderr)
		}
	}
}

func TestWireTable(t *testing.T) {
	r := &wirebench.Result{
		Connection: "webtransport, QUIC", RoundTrip: wirebench.RoundTrip{Idle: 41.4, Behind: 123_456},
		Put: wirebench.Rate{MBS: 1234.56, CPUPerGB: 0.9}, Get: wirebench.Rate{MBS: 0.04}, Both: wirebench.Rate{MBS: 100},
		Packing: []wirebench.Class{{Name: "parameters, float32", Width: 4, Packed: 3.37, Pack: 1200, Unpack: 1700.4, Pays: true}},
	}
	const want = `webtransport, QUIC: round trip 41 us, behind a bulk transfer 123 ms

                             MB/s     CPU s a GB
there                      1234.6           0.90
back                          0.0           0.00
both ways at once           100.0           0.00

packing                     bytes   left of them  pack MB/s  unpack MB/s   pays
parameters, float32             4           3.37       1200         1700    yes
`
	var b strings.Builder
	if err := printWire(&b, r); err != nil {
		t.Fatal(err)
	}
	if b.String() != want {
		t.Errorf("got\n%swant\n%s", b.String(), want)
	}
	for line := range strings.Lines(b.String()) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 {
			t.Errorf("a line of %d columns: %q", n, line)
		}
	}
}
