// Package dispatcherpart adds the dispatcher to a process.
package dispatcherpart

import (
	"fmt"
	"net/http"

	"waybill.dev/cmd/internal/boot"
	"waybill.dev/services/dispatcher"
)

// Add makes the dispatcher on the handles and adds it to p. The result answers questions
// about its health.
func Add(p *boot.Process, h *boot.Handles) (http.Handler, error) {
	service, err := dispatcher.New(dispatcher.Options{
		Store: h.Store, Bus: h.Bus, Egress: h.Egress, Logger: h.Logger,
		Metrics: h.Registry, Tracer: h.Tracer, Version: h.Version,
		DefaultSchedule: h.Settings.RetrySchedule,
		Retention:       h.Settings.Retention,
		DisableAfter:    h.Settings.DisableAfter,
		Memory:          h.Settings.DispatchMemory,
	})
	if err != nil {
		return nil, fmt.Errorf("make dispatcher: %w", err)
	}
	p.Add("dispatcher", service.Run)
	return service.Handler(), nil
}
