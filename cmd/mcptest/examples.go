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

// examples starts Waybill as its users do, with the examples of the documentation as its
// routes, and goes through them with every client.
func (c *conformance) examples(ctx context.Context) (err error) {
	site, err := stack.NewSite(ctx, c.work)
	if err != nil {
		return err
	}
	routes, err := filepath.Abs(examples)
	if err != nil {
		return fmt.Errorf("find the examples: %w", err)
	}
	// The examples' back end is a file server, wherever it is.
	backend, err := startServer(ctx, anyPort, http.FileServerFS(os.DirFS(filepath.Join(examples, "backend"))))
	if err != nil {
		return fmt.Errorf("serve the examples' back end: %w", err)
	}
	defer backend.close()
	s, err := site.AllInOne(ctx, stack.Options{Routes: routes, Settings: map[string]string{"EXAMPLE_BACKEND": backend.url}})
	if err != nil {
		return fmt.Errorf("serve the examples: %w", err)
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if err := c.clients(ctx, s.URL+"/mcp", "cmd/mcptest/examples.json"); err != nil {
		return fmt.Errorf("%w\n%s", err, s.Waybill.Tail())
	}
	return nil
}
