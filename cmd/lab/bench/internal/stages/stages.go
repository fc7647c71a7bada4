// Package stages says where a process spent its time: it sums a CPU profile up by the packages of Waybill.
package stages

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
)

const (
	own = "waybill.dev/"
	// engine runs the statements of all tables: whose they are says who called it.
	engine = own + "shared/store"
)

// Of reads a CPU profile with the tool that comes with Go, and returns the share of each stage.
func Of(ctx context.Context, file string) (map[string]float64, error) {
	var failed bytes.Buffer
	cmd := exec.CommandContext(ctx, "go", "tool", "pprof", "-traces", "-unit=ms", file)
	cmd.Stderr = &failed
	text, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("read the profile %s: %w: %s", file, err, failed.String())
	}
	return sum(text)
}

// sum adds up what pprof prints of each stack: the time and the innermost function in one line, then
// the functions that called it, and a line of dashes between two stacks.
func sum(text []byte) (map[string]float64, error) {
	shares, all := make(map[string]float64), 0.0
	var functions []string
	ms := 0.0
	end := func() {
		if len(functions) > 0 {
			shares[stage(functions)] += ms
			all += ms
		}
		functions, ms = nil, 0
	}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if strings.HasPrefix(line, "----") {
			end()
			continue
		}
		first, rest, two := strings.Cut(line, " ")
		value, timed := strings.CutSuffix(first, "ms")
		n, err := strconv.ParseFloat(value, 64)
		switch {
		case two && timed && err == nil:
			ms, functions = n, []string{strings.TrimSpace(rest)}
		case len(functions) > 0 && line != "":
			functions = append(functions, line)
		}
	}
	end()
	if all == 0 {
		return nil, fmt.Errorf("a profile without a sample: %.200q", text)
	}
	for name := range shares {
		shares[name] /= all
	}
	return shares, lines.Err()
}

// stage is whose work a stack is, its innermost function first: the innermost package of Waybill's. Where there is
// none, a library works on its own, and the stage is its package.
func stage(functions []string) string {
	innermost := ""
	for _, f := range functions {
		if p := pkg(f); strings.HasPrefix(p, own) {
			if innermost = p; p != engine {
				break
			}
		}
	}
	if innermost != "" {
		return strings.TrimPrefix(innermost, own)
	}
	outermost := "runtime"
	for _, f := range functions {
		switch p := pkg(f); {
		case strings.HasPrefix(f, "runtime.gcBgMarkWorker"), strings.HasPrefix(f, "runtime.bgsweep"), strings.HasPrefix(f, "runtime.bgscavenge"):
			return "garbage collection"
		case p != "runtime" && !strings.HasPrefix(p, "internal/"):
			outermost = p
		}
	}
	return outermost
}

// pkg is the package of a function. Its type parameters may have slashes and dots too.
func pkg(function string) string {
	name, _, _ := strings.Cut(function, "[")
	slash := strings.LastIndexByte(name, '/') + 1
	last, _, _ := strings.Cut(name[slash:], ".")
	return strings.ReplaceAll(name[:slash]+last, "%2e", ".") // that is how the linker writes a dot in a package's name
}
