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
func Add(p *boot.Process, h *boot.Handles) (http.Handler, error) { return AddWatched(p, h, nil) }

// AddWatched is Add with an observer of each attempt; may be nil.
func AddWatched(p *boot.Process, h *boot.Handles, watch func(dispatcher.MadeAttempt)) (http.Handler, error) {
	service, err := dispatcher.New(dispatcher.Options{
		Store: h.Store, Bus: h.Bus, Egress: h.Egress, Logger: h.Logger,
		Metrics: h.Registry, Tracer: h.Tracer, Version: h.Version,
		DefaultSchedule: h.Settings.RetrySchedule,
		Retention:       h.Settings.Retention,
		DisableAfter:    h.Settings.DisableAfter,
		PublicURL:       h.Settings.PublicURL,
		Memory:          h.Settings.DispatchMemory,
		Watch:           watch,
	})
	if err != nil {
		return nil, fmt.Errorf("make dispatcher: %w", err)
	}
	p.Add("dispatcher", service.Run)
	return service.Handler(), nil
}
