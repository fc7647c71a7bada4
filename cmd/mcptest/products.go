package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"

	"waybill.dev/cmd/internal/stack"
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
	if err := c.product(ctx, site, examples, settings, false, "cmd/mcptest/examples.json"); err != nil {
		return err
	}
	return c.product(ctx, site, shipped, nil, true, "cmd/mcptest/shipped.json")
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
	if err := c.clients(ctx, s.URL+"/mcp", key, expectations); err != nil {
		return fmt.Errorf("%w\n%s", err, s.Waybill.Tail())
	}
	return nil
}
