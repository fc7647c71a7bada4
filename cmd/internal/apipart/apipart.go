// Package apipart adds the API to a process.
package apipart

import (
	"fmt"
	"net/http"
	"os"

	"waybill.dev/cmd/internal/boot"
	"waybill.dev/services/api"
)

// Add makes the API on the handles and adds it to p. The result answers on the process's
// HTTP address.
func Add(p *boot.Process, h *boot.Handles) (http.Handler, error) {
	service, err := api.New(api.Options{
		Store: h.Store, Bus: h.Bus, Egress: h.Egress, Logger: h.Logger,
		AdminKey:      h.Settings.AdminKey,
		Keyring:       h.Keyring,
		RetrySchedule: h.Settings.RetrySchedule,
		Retention:     h.Settings.Retention,
		RateLimit:     h.Settings.RateLimit,
		RoutesDir:     h.Settings.RoutesDir, RoutesOptional: !h.Settings.RoutesDirGiven, Getenv: os.LookupEnv,
		Registerer: h.Registry, TracerProvider: h.Tracer,
	})
	if err != nil {
		return nil, fmt.Errorf("make API: %w", err)
	}
	p.Add("API", service.Run)
	return service.Handler(), nil
}
