package local

import (
	"time"

	"waybill.dev/services/gateway/internal/site"
)

// State describes the routes that are served, and the faults that keep the folder from being
// served.
type State struct {
	Dir    string // empty: Waybill's built-in routes
	Loaded time.Time
	Files  int
	Routes []site.Info
	// Faults are the faults of the folder as it is now; none: the folder is what is served.
	Faults   site.Faults
	FaultsAt time.Time
}

// State returns the present state.
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
