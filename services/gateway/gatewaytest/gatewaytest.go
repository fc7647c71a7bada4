// Package gatewaytest runs a gateway without the rest of Waybill. It is for conformance suites and
// for measurements.
package gatewaytest

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"

	"waybill.dev/services/gateway/internal/local"
	"waybill.dev/shared/egress"
)

// Start loads the routes of a folder and watches it until ctx ends. The routes may name the module
// "conformance"; there are no keys, and $env has no value.
func Start(ctx context.Context, dir string, logger *slog.Logger) (http.Handler, error) {
	g, err := local.New(local.Options{
		Dir:           dir,
		Modules:       modules(),
		Egress:        &egress.Policy{},
		Authenticator: Keys{},
		Logger:        logger,
		Registerer:    prometheus.NewRegistry(),
	})
	if err != nil {
		return nil, fmt.Errorf("start gateway: %w", err)
	}
	go func() {
		if err := g.Run(ctx); err != nil {
			logger.Error("the gateway has ended", "error", err)
		}
	}()
	return g, nil
}
