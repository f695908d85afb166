package deptest

import (
	"fmt"
	"slices"
	"strings"
)

// A rule keeps packages away from imports. A pattern is an import path, or one with "/..." at its end for all below it
// and itself.
type rule struct {
	from   []string // whom it binds
	except []string // whom it does not bind
	never  []string // what these must not import
	deep   bool     // neither by way of others; tests are left out then
	code   bool     // only in code, tests may
	why    string
}

var rules = []rule{
	{from: []string{"shoal/peer/..."}, never: []string{"shoal", "shoal/swarm/...", "shoal/fsdp/...", "shoal/model/...", "shoal/kernel/..."}, deep: true,
		why: "peer is only the network"},
	{from: []string{"shoal/swarm/..."}, never: []string{"shoal", "shoal/peer/...", "shoal/fsdp/...", "shoal/model/...", "shoal/kernel/..."}, deep: true,
		why: "swarm declares the Transport that it needs, and knows no training"},
	{from: []string{"shoal/fsdp/..."}, never: []string{"shoal", "shoal/peer/...", "shoal/swarm/...", "net"}, deep: true,
		why: "fsdp declares the Comm that it needs"},
	{from: []string{"shoal/model/..."}, never: []string{"shoal", "shoal/peer/...", "shoal/swarm/...", "shoal/fsdp/...", "net"}, deep: true,
		why: "a model does not know that it is sharded"},
	{from: []string{"shoal/kernel/..."}, never: []string{"shoal", "shoal/peer/...", "shoal/swarm/...", "shoal/fsdp/...", "shoal/model/...", "net"}, deep: true,
		why: "kernel knows nothing of networks"},
	{from: []string{"shoal/internal/dataserve"}, never: []string{"shoal", "shoal/peer/...", "shoal/swarm/...", "shoal/fsdp/..."}, deep: true,
		why: "dataserve declares the Transport that it needs"},
	{from: []string{"shoal/internal/place"}, never: []string{"shoal", "shoal/peer/...", "shoal/swarm/...", "shoal/fsdp/...", "shoal/model/...", "shoal/kernel/...", "shoal/internal/..."},
		why: "place is arithmetic that swarm and fsdp share"},
	{from: []string{"shoal/swarm/member"}, never: []string{"net", "os", "time", "sync"}, code: true,
		why: "the membership core has no clock, goroutine or I/O"},
	{from: []string{"shoal/..."}, except: []string{"shoal/peer/..."}, never: []string{"github.com/libp2p/...", "github.com/multiformats/..."},
		why: "only peer imports libp2p"},
	{from: []string{"shoal/..."}, except: []string{"shoal/swarm/codec"}, never: []string{"github.com/klauspost/compress/..."},
		why: "only swarm/codec compresses"},
	{from: []string{"shoal/..."}, except: []string{"shoal/cmd/...", "shoal/testnet", "shoal/wasm", "shoal/examples/...", "shoal/scripts/..."}, never: []string{"shoal/testnet", "shoal/cmd/..."},
		why: "testnet, cmd and wasm are callers of package shoal"},
	{from: []string{"shoal/..."}, except: []string{"shoal/cmd/...", "shoal/kernel/cpu/gen", "shoal/kernel/cpu/gemm/gen", "shoal/examples/...", "shoal/scripts/..."}, never: []string{"flag", "github.com/spf13/..."}, code: true,
		why: "flags live in programs"},
}

// notForBrowser are the packages that need not build for js/wasm. All others must.
var notForBrowser = []string{
	"shoal/cmd/...", "shoal/testnet", "shoal/examples/...", "shoal/scripts/...", "shoal/internal/deptest", "shoal/internal/browsertest", "shoal/kernel/wasm/bits", "shoal/kernel/cpu/gen", "shoal/kernel/cpu/gemm/gen",
	"shoal/internal/page", "shoal/internal/tab", "shoal/internal/browsertest",
}

func matches(path string, patterns []string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		base, below := strings.CutSuffix(p, "/...")
		return path == base || below && strings.HasPrefix(path, base+"/")
	})
}

// pkg is what `go list -json` tells of a package.
type pkg struct {
	ImportPath                         string
	Imports, TestImports, XTestImports []string
}

// faults lists each import in pkgs that a rule forbids. pkgs has the packages bound by rules and all that they import.
func faults(pkgs map[string]*pkg, rules []rule) []string {
	var found []string
	for _, p := range pkgs {
		for _, r := range rules {
			if !matches(p.ImportPath, r.from) || matches(p.ImportPath, r.except) {
				continue
			}
			for _, chain := range imports(pkgs, p, r) {
				found = append(found, fmt.Sprintf("%s: %s", strings.Join(chain, " -> "), r.why))
			}
		}
	}
	slices.Sort(found)
	return found
}

// imports lists the ways from p to what r forbids.
func imports(pkgs map[string]*pkg, p *pkg, r rule) [][]string {
	var found [][]string
	if !r.deep {
		direct := p.Imports
		if !r.code {
			direct = slices.Concat(p.Imports, p.TestImports, p.XTestImports)
		}
		for _, to := range direct {
			if to != p.ImportPath && matches(to, r.never) {
				found = append(found, []string{p.ImportPath, to})
			}
		}
		return found
	}
	seen := map[string]bool{p.ImportPath: true}
	queue := [][]string{{p.ImportPath}}
	for len(queue) > 0 {
		chain := queue[0]
		queue = queue[1:]
		at := pkgs[chain[len(chain)-1]]
		if at == nil {
			continue
		}
		for _, to := range at.Imports {
			if seen[to] {
				continue
			}
			seen[to] = true
			next := append(slices.Clone(chain), to)
			if matches(to, r.never) {
				found = append(found, next)
				continue
			}
			queue = append(queue, next)
		}
	}
	return found
}
