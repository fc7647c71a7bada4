// Package health reports whether the process is alive, and whether it can serve.
package health

import (
	"context"
	"net/http"
	"time"

	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/shared/bus"
	"waybill.dev/shared/problem"
)

// aliveBudget is how long /healthz waits for the store before it reports it as down: a caller asks
// about the process and needs a quick answer.
const aliveBudget = 500 * time.Millisecond

const (
	stateUp      = "up"
	stateDown    = "down"
	statePending = "migrations pending"
	stateNoRoom  = "no room"
)

// Store is the database.
type Store interface {
	Ping(ctx context.Context) error
	// Pending reports whether there are migrations to run.
	Pending(ctx context.Context) (bool, error)
}

// Bus is the bus.
type Bus interface {
	Ready() error
	// Missing returns the stream for which the bus has no room; nil: all streams exist.
	Missing() *bus.NoRoomError
}

// Routes returns the operations. They need no key.
func Routes(store Store, b Bus) []web.Route {
	h := &handlers{store, b}
	return []web.Route{
		{Method: http.MethodGet, Path: "/healthz", Operation: "checkHealth", Handle: h.alive},
		{Method: http.MethodGet, Path: "/readyz", Operation: "checkReadiness", Handle: h.ready},
	}
}

type handlers struct {
	store Store
	bus   Bus
}

// Health is the state of the process.
type Health struct {
	Status string `json:"status"`
	Store  string `json:"store"`
	Bus    string `json:"bus"`
	// Missing says why nothing is delivered, though events are accepted.
	Missing string `json:"missing,omitempty"`
}

func (h *handlers) lookAtBus(view *Health) {
	view.Bus = stateUp
	if h.bus.Ready() != nil {
		view.Bus = stateDown
	} else if missing := h.bus.Missing(); missing != nil {
		view.Bus, view.Missing = stateNoRoom, missing.Error()
	}
}

func (h *handlers) alive(c *web.Call) error {
	ctx, cancel := context.WithTimeout(c.Context(), aliveBudget)
	defer cancel()
	view := Health{Status: "alive", Store: stateUp}
	h.lookAtBus(&view)
	if h.store.Ping(ctx) != nil {
		view.Store = stateDown
	}
	return c.Answer(http.StatusOK, view)
}

// ready does not depend on the bus: events that it can't take now are sent when it is back.
func (h *handlers) ready(c *web.Call) error {
	view := Health{Status: "ready", Store: stateUp}
	h.lookAtBus(&view)
	detail := ""
	if err := h.store.Ping(c.Context()); err != nil {
		view.Store, detail = stateDown, "The store can't be reached."
	} else if pending, err := h.store.Pending(c.Context()); err != nil {
		view.Store, detail = stateDown, "The store can't be read."
	} else if pending {
		view.Store, detail = statePending, "The store has pending migrations: run waybill migrate up."
	}
	if detail == "" {
		return c.Answer(http.StatusOK, view)
	}
	p := web.Unavailable(detail)
	p.Extra = []problem.Member{{Name: "store", Value: view.Store}, {Name: "bus", Value: view.Bus}}
	return p
}
