package local

import (
	"time"

	"waybill.dev/services/gateway/internal/site"
)

// State is what is served, and what keeps the folder from being served as it is.
type State struct {
	Dir    string // empty: the routes that Waybill comes with
	Loaded time.Time
	Files  int
	Routes []site.Info
	// Faults are those of the folder as it is now; none: it is what is served.
	Faults   site.Faults
	FaultsAt time.Time
}

// State tells it.
func (r *Routes) State() State {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.current.Load()
	state := State{Dir: r.options.Dir, Loaded: r.loaded, Files: s.Files(), Routes: s.Routes(), Faults: r.fault}
	if r.fault != nil {
		state.FaultsAt = r.faultAt
	}
	return state
}
