package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"

	"waybill.dev/cmd/lab/internal/stack"
)

// products starts Waybill as its users do, once with the example of the documentation as its
// routes and once with those that it comes with, and goes through both with every client.
func (c *conformance) products(ctx context.Context) error {
	site, err := stack.NewSite(ctx, c.work)
	if err != nil {
		return err
	}
	// The example's back end is a file server, wherever it is.
	backend, err := startServer(ctx, anyPort, http.FileServerFS(os.DirFS(filepath.Join(examples, "backend"))))
	if err != nil {
		return fmt.Errorf("serve the example's back end: %w", err)
	}
	defer backend.close()
	settings := map[string]string{"EXAMPLE_BACKEND": backend.url}
	if err := c.product(ctx, site, examples, settings, false, "cmd/lab/mcptest/examples.json"); err != nil {
		return err
	}
	if err := c.product(ctx, site, shipped, nil, true, "cmd/lab/mcptest/shipped.json"); err != nil {
		return err
	}
	return c.documentation(ctx, site)
}

// documentation holds the open server of the documentation to the suite, and goes through it
// with every client. Each part has a Waybill of its own: one address may ask so often a minute.
func (c *conformance) documentation(ctx context.Context, site *stack.Site) error {
	expected, err := c.expectGuides()
	if err != nil {
		return err
	}
	parts := []func(url string) error{func(url string) error { return c.clients(ctx, url, "", expected) }}
	for _, revision := range revisions() {
		parts = append(parts, func(url string) error { return c.suite(ctx, url, revision, "docs-") })
	}
	for i, part := range parts {
		if err := c.ownWaybill(ctx, site, fmt.Sprintf("docs%d", i), part); err != nil {
			return fmt.Errorf("the documentation: %w", err)
		}
	}
	return nil
}

// ownWaybill starts Waybill with its own routes for one part of the run.
func (c *conformance) ownWaybill(ctx context.Context, site *stack.Site, name string, part func(url string) error) (err error) {
	folder, err := filepath.Abs(shipped)
	if err != nil {
		return fmt.Errorf("find the routes: %w", err)
	}
	s, err := site.AllInOne(ctx, stack.Options{Name: name, Routes: folder})
	if err != nil {
		return fmt.Errorf("serve %s: %w", shipped, err)
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	return part(s.URL + "/mcp/docs")
}

// expectGuides writes down what the server of the documentation has: every guide, and the tools.
func (c *conformance) expectGuides() (string, error) {
	want := expectations{
		Resources: make(map[string]expected), Templates: map[string]expected{}, Prompts: map[string]expected{},
		Tools: map[string]expected{
			"search_docs": {Arguments: map[string]any{"query": "verify a signature", "limit": 3}, Contains: "receivers.md"},
			"read_doc":    {Arguments: map[string]any{"path": "receivers.md"}, Contains: "signature"},
		},
	}
	files, err := fs.Glob(os.DirFS(guides), "*.md")
	if err != nil || len(files) == 0 {
		return "", fmt.Errorf("list guides of %s: %d, %w", guides, len(files), err)
	}
	for _, file := range files {
		want.Resources["docs://"+file] = expected{MIMEType: "text/markdown", Contains: "# "}
	}
	raw, err := json.Marshal(want)
	if err != nil {
		return "", fmt.Errorf("write down the guides: %w", err)
	}
	name := filepath.Join(c.work, "docs.json")
	if err := os.WriteFile(name, raw, 0o600); err != nil {
		return "", fmt.Errorf("write down the guides: %w", err)
	}
	return name, nil
}

// product is one run of Waybill.
func (c *conformance) product(ctx context.Context, site *stack.Site, routes string, settings map[string]string, withKey bool, expectations string) (err error) {
	folder, err := filepath.Abs(routes)
	if err != nil {
		return fmt.Errorf("find the routes: %w", err)
	}
	s, err := site.AllInOne(ctx, stack.Options{Name: filepath.Base(routes), Routes: folder, Settings: settings})
	if err != nil {
		return fmt.Errorf("serve %s: %w", routes, err)
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	key := ""
	if withKey {
		key = s.Key
	}
	if err := c.clients(ctx, s.URL+"/mcp?tools=all&schemas=1", key, expectations); err != nil {
		return fmt.Errorf("%w\n%s", err, s.Waybill.Tail())
	}
	return nil
}
