//go:build !js

package peer

import (
	"bufio"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	ma "github.com/multiformats/go-multiaddr"

	"shoal/internal/browsertest"
)

// TestBrowser runs the tests whose files end in _js_test.go: in Chromium, on a secure page and on one that isn't, and in
// Node. Here are the daemons that they talk to.
func TestBrowser(t *testing.T) {
	dir := browsertest.Build(t, ".", true)
	args := func(run string) []string {
		args := []string{"-test.run=" + run, "-test.v"}
		if *long {
			args = append(args, "-long")
		}
		return args
	}
	t.Run("contract", func(t *testing.T) {
		browsertest.GoTest{Dir: dir, Args: args("^TestContract"), Env: startContract(t).env()}.Run(t)
	})
	t.Run("tab", func(t *testing.T) {
		page := browsertest.Page{}
		if *long {
			page.Timeout = 15 * time.Minute
		}
		browsertest.GoTest{Dir: dir, Args: args("^TestTab"), Env: startTabDaemons(t, "127.0.0.1"), Page: page}.Run(t)
	})
	t.Run("insecure", func(t *testing.T) {
		ip := ownIP(t)
		page := browsertest.Page{Plain: true, Host: ip}
		browsertest.GoTest{Dir: dir, Args: args("^TestTab(Echo|Insecure|Circuit)$"), Env: startTabDaemons(t, ip), Page: page}.Run(t)
	})
	t.Run("node", func(t *testing.T) {
		env := startTabDaemons(t, "127.0.0.1")
		for k, v := range startContract(t).env() {
			env[k] = v
		}
		g := browsertest.GoTest{Dir: dir, Args: args("^(TestTabEcho|TestTabCircuit|TestContractReset|TestContractEnd)$"), Env: env}
		g.RunNode(t, nodeFlags(t)...)
	})
}

func (c contract) env() map[string]string {
	return map[string]string{"SHOAL_CONTRACT": fmt.Sprintf("%s %s %s", c.id, c.ws, c.wt)}
}

// nodeFlags give Node a WebSocket: it has one by itself from version 22 on, and under a flag in version 20.
func nodeFlags(t *testing.T) []string {
	t.Helper()
	out, err := exec.Command("node", "-p", "typeof WebSocket").Output()
	if err == nil && strings.TrimSpace(string(out)) == "undefined" {
		return []string{"--experimental-websocket"}
	}
	return nil // no Node at all is RunNode's affair
}

// ownIP is an address of this machine that is not loopback: pages from there are not secure.
func ownIP(t *testing.T) string {
	t.Helper()
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && !n.IP.IsLoopback() {
			return n.IP.String()
		}
	}
	t.Skip("this machine has only loopback addresses")
	return ""
}

// tabDaemons are three peers of a run, and a way to the first one that can be cut.
type tabDaemons struct {
	t       *testing.T
	first   *Host
	other   *Host // is asked to dial a tab
	path    *freezer
	members sync.Map // whom they relay for, by peer id

	mu      sync.Mutex
	restart *Host // can be asked to end and to begin again
	config  Config
}

// startTabDaemons starts them at an address of this machine, and gives the environment by which tests in a tab find them.
func startTabDaemons(t *testing.T, ip string) map[string]string {
	t.Helper()
	at := net.JoinHostPort(ip, "0")
	d := &tabDaemons{t: t}
	d.first, d.other = newTestHost(t, Config{Listen: []string{at}}), newTestHost(t, Config{Listen: []string{at}})
	d.config = Config{Listen: []string{at}, Identity: filepath.Join(t.TempDir(), "identity")}
	d.restart = newTestHost(t, d.config)
	d.config.Listen = d.restart.Addrs()
	t.Cleanup(func() { d.restart.Close() })
	d.path = newFreezer(t, d.first)
	for _, h := range []*Host{d.first, d.restart} {
		d.serve(h)
	}
	frozen := linkTo(d.first)
	frozen.Addrs = []string{d.path.addr()}
	return map[string]string{
		"SHOAL_DAEMON":  linkTo(d.first).String(),
		"SHOAL_OTHER":   linkTo(d.other).String(),
		"SHOAL_RESTART": linkTo(d.restart).String(),
		"SHOAL_FREEZER": frozen.String(),
	}
}

func linkTo(h *Host) Link {
	return Link{Peer: h.Self(), Addrs: h.Addrs(), Run: "browser", Secret: NewSecret()}
}

func (d *tabDaemons) serve(h *Host) {
	h.RelayFor(func(peer string) bool {
		_, ok := d.members.Load(peer)
		return ok
	})
	serve(h, echo)
	h.Handle(sumProto, func(_ string, c net.Conn) { // of all that comes
		defer c.Close()
		sum := sha256.New()
		if _, err := io.Copy(sum, c); err == nil {
			c.Write(sum.Sum(nil))
		}
	})
	h.Handle(sendProto, func(_ string, c net.Conn) { // as many bytes as asked for, and their sum
		defer c.Close()
		var n int64
		if binary.Read(c, binary.LittleEndian, &n) != nil {
			return
		}
		sum, chunk := sha256.New(), make([]byte, 1<<20)
		rand.Read(chunk)
		for w := io.MultiWriter(c, sum); n > 0; n -= int64(len(chunk)) {
			chunk = chunk[:min(n, int64(len(chunk)))]
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
		c.Write(sum.Sum(nil))
	})
	h.Handle(doProto, func(from string, c net.Conn) {
		defer c.Close()
		line, err := bufio.NewReader(c).ReadString('\n')
		if err != nil {
			return
		}
		answer, err := d.do(from, strings.Fields(line))
		if err != nil {
			answer = "error: " + err.Error()
		}
		io.WriteString(c, answer)
	})
}

// do is what a tab asks for.
func (d *tabDaemons) do(from string, words []string) (answer string, err error) {
	switch words[0] {
	case "member": // from now on: the one who asks, and others
		for _, id := range append(words[1:], from) {
			d.members.Store(id, true)
		}
	case "relaying":
		return fmt.Sprintf("%+v", d.first.Relaying()), nil
	case "freeze":
		d.path.freeze()
	case "restart":
		d.mu.Lock()
		defer d.mu.Unlock()
		d.restart.Close()
		if d.restart, err = New(testContext(d.t), d.config); err == nil {
			d.serve(d.restart)
		}
	case "dial": // a peer at addresses, from the other daemon
		c, err := d.other.Open(testContext(d.t), words[1], words[2:], testProto)
		if err != nil {
			return "", err
		}
		defer c.Close()
		text := make([]byte, 5)
		if _, err := io.WriteString(c, "hello"); err != nil {
			return "", err
		}
		if _, err := io.ReadFull(c, text); err != nil {
			return "", err
		}
		return fmt.Sprintf("%s from %s", text, c.RemoteAddr()), nil
	default:
		err = fmt.Errorf("what is %q?", words)
	}
	return "done", err
}

// freezer passes connections on to the WebSocket of a Host, until it freezes: then nothing passes any more, and nobody hears
// of that.
type freezer struct {
	l      net.Listener
	target string
	work   sync.WaitGroup

	mu     sync.Mutex
	frozen bool
	conns  []net.Conn
}

func newFreezer(t *testing.T, h *Host) *freezer {
	t.Helper()
	f := &freezer{}
	for _, text := range h.Addrs() {
		if a := ma.StringCast(text); kindOf(a) == kindWS {
			f.target = net.JoinHostPort(a[0].Value(), a[1].Value())
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f.l = l
	f.work.Go(f.accept)
	t.Cleanup(func() {
		l.Close()
		f.mu.Lock()
		for _, c := range f.conns {
			c.Close()
		}
		f.mu.Unlock()
		f.work.Wait()
	})
	return f
}

func (f *freezer) addr() string {
	at := f.l.Addr().(*net.TCPAddr)
	return fmt.Sprintf("/ip4/%s/tcp/%d/ws", at.IP, at.Port)
}

func (f *freezer) freeze() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.frozen = true
}

func (f *freezer) accept() {
	for {
		in, err := f.l.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", f.target)
		if err != nil {
			in.Close()
			continue
		}
		f.mu.Lock()
		f.conns = append(f.conns, in, out)
		f.mu.Unlock()
		f.work.Go(func() { f.pass(in, out) })
		f.work.Go(func() { f.pass(out, in) })
	}
}

func (f *freezer) pass(from, to net.Conn) {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		f.mu.Lock()
		frozen := f.frozen
		f.mu.Unlock()
		if err == nil && frozen {
			continue
		}
		if err == nil {
			_, err = to.Write(buf[:n])
		}
		if err != nil {
			from.Close()
			to.Close()
			return
		}
	}
}
