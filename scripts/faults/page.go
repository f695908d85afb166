package main

import (
	"bytes"
	"fmt"
	"runtime"
	"slices"

	"shoal/internal/sysinfo"
	"shoal/testnet"
)

// words say what the kinds of faults are.
var words = map[string]string{testnet.Kill: "SIGKILL", testnet.Stop: "SIGSTOP"}

// tables are one for each signal: roles down, phases across.
func tables(cells []testnet.Cell, done []testnet.Outcome) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "\nBy `make faults`, with %d peers as processes on one machine: %s, %d cores, %.0f GiB of memory.\n",
		testnet.MatrixPeers, runtime.GOOS+"/"+runtime.GOARCH, runtime.NumCPU(), float64(sysinfo.Memory())/(1<<30))
	for _, kind := range []string{testnet.Kill, testnet.Stop} {
		of := slices.DeleteFunc(slices.Clone(cells), func(c testnet.Cell) bool { return c.Kind != kind })
		if len(of) > 0 {
			table(&b, kind, of, done)
		}
	}
	b.WriteString("\n")
	notes(&b, cells, done)
	return b.Bytes()
}

func table(b *bytes.Buffer, kind string, cells []testnet.Cell, done []testnet.Outcome) {
	var roles, phases []string
	for _, c := range cells {
		if !slices.Contains(roles, c.Role) {
			roles = append(roles, c.Role)
		}
		if !slices.Contains(phases, c.Phase) {
			phases = append(phases, c.Phase)
		}
	}
	fmt.Fprintf(b, "\n%s: milliseconds until the next commit; at most %.0f and one step are promised.\n\n| |", words[kind],
		1000*limit(kind))
	for _, p := range phases {
		fmt.Fprintf(b, " %s |", p)
	}
	b.WriteString("\n| --- |")
	for range phases {
		b.WriteString(" ---: |")
	}
	b.WriteString("\n")
	for _, r := range roles {
		fmt.Fprintf(b, "| %s |", r)
		for _, p := range phases {
			fmt.Fprintf(b, " %s |", entry(testnet.Cell{Kind: kind, Role: r, Phase: p}, cells, done))
		}
		b.WriteString("\n")
	}
}

// limit is what is promised of a kind of fault, in seconds.
func limit(kind string) float64 {
	o := testnet.Outcome{Cell: testnet.Cell{Kind: kind}}
	return o.Limit().Seconds()
}

// entry is what a table says of a cell.
func entry(c testnet.Cell, cells []testnet.Cell, done []testnet.Outcome) string {
	i := slices.IndexFunc(done, func(o testnet.Outcome) bool { return o.Cell == c })
	switch {
	case c.Impossible() != "":
		return "-"
	case !slices.Contains(cells, c) || i < 0:
		return "not tried"
	case done[i].Problem != "":
		return fmt.Sprintf("**%d**", done[i].Next.Milliseconds())
	}
	return fmt.Sprint(done[i].Next.Milliseconds())
}

// notes say what the tables mean, what can't be, and what was not as promised.
func notes(b *bytes.Buffer, cells []testnet.Cell, done []testnet.Outcome) {
	if len(done) > 0 {
		steps := make([]float64, len(done))
		for i, o := range done {
			steps[i] = o.Step.Seconds() * 1000
		}
		fmt.Fprintf(b, "One step, the median of its run, took %.1f to %.1f ms. ", slices.Min(steps), slices.Max(steps))
	}
	var bad, never []string
	for _, o := range done {
		if o.Problem != "" {
			bad = append(bad, fmt.Sprintf("- %s: %s\n", o.Cell, o.Problem))
		}
	}
	for _, c := range cells {
		if why := c.Impossible(); why != "" {
			never = append(never, fmt.Sprintf("- %s: %s\n", c, why))
		}
	}
	if len(bad) == 0 {
		fmt.Fprintf(b, "In all %d cases no step and no sample was lost or doubled, and the run ended with the state hash of an undisturbed\none on one peer.\n", len(done))
	} else {
		fmt.Fprintf(b, "Of %d cases these %d were not as promised:\n\n%s", len(done), len(bad), join(bad))
	}
	if len(never) > 0 {
		fmt.Fprintf(b, "\nWhat can't be:\n\n%s", join(never))
	}
	b.WriteString("\n")
}

func join(lines []string) string {
	var b bytes.Buffer
	for _, l := range lines {
		b.WriteString(l)
	}
	return b.String()
}
