package web

import (
	"context"
	"net/http"
	"time"

	"waybill.dev/shared/problem"
)

// aliveBudget is how long /healthz waits for the store before it calls it down: whoever
// asks wants to know about the process and is in a hurry.
const aliveBudget = 500 * time.Millisecond

const (
	stateUp      = "up"
	stateDown    = "down"
	statePending = "migrations pending"
)

type healthView struct {
	Status string `json:"status"`
	Store  string `json:"store"`
	Bus    string `json:"bus"`
}

func (s *server) busState() string {
	if s.Bus.Ready() != nil {
		return stateDown
	}
	return stateUp
}

func (s *server) healthz(c *call) error {
	ctx, cancel := context.WithTimeout(c.ctx(), aliveBudget)
	defer cancel()
	view := healthView{Status: "alive", Store: stateUp, Bus: s.busState()}
	if s.Store.Ping(ctx) != nil {
		view.Store = stateDown
	}
	return c.answer(http.StatusOK, view)
}

// readyz does not depend on the bus: what it can't take now goes out when it is back.
func (s *server) readyz(c *call) error {
	view := healthView{Status: "ready", Store: stateUp, Bus: s.busState()}
	detail := ""
	if err := s.Store.Ping(c.ctx()); err != nil {
		view.Store, detail = stateDown, "The store can't be reached."
	} else if pending, err := s.Store.Pending(c.ctx()); err != nil {
		view.Store, detail = stateDown, "The store can't be read."
	} else if pending {
		view.Store, detail = statePending, "The store has pending migrations: run waybill migrate up."
	}
	if detail == "" {
		return c.answer(http.StatusOK, view)
	}
	p := unavailable(detail)
	p.Extra = []problem.Member{{Name: "store", Value: view.Store}, {Name: "bus", Value: view.Bus}}
	return p
}
