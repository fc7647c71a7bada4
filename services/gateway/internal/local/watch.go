package local

import (
	"context"
	"time"

	"waybill.dev/services/gateway/internal/folder"
)

// watchEvery is how often the folder is read. Polling works on every file system, including network
// and container mounts, where notifications of changes do not work.
const watchEvery = 300 * time.Millisecond

// Run watches the folder until ctx ends, then closes the connections to back ends.
func (r *Routes) Run(ctx context.Context) error {
	defer r.upstreams.Close()
	if r.options.Dir == "" {
		<-ctx.Done()
		return nil
	}
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	unreadable := false
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		err := r.applyChanges()
		if err != nil && !unreadable {
			r.options.Logger.Error("the folder of the route files can't be read; the present routes stay", "folder", r.options.Dir, "error", err)
		}
		unreadable = err != nil
	}
}

// applyChanges applies changes of the folder. Faults are logged at the next look, if the folder has not
// changed until then: they may come from files that are just being written.
func (r *Routes) applyChanges() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	now, err := folder.Read(r.options.Dir, r.seen)
	if err != nil {
		return err
	}
	same := now.Equal(r.seen)
	r.seen = now
	if same {
		for _, fault := range r.refused {
			r.options.Logger.Error("route files refused; the present routes stay", "file", fault.File,
				"operation", fault.Operation, "pointer", fault.Pointer, "fault", fault.Message)
		}
		r.refused = nil
		return nil
	}
	if r.refused = r.replace(now); r.refused == nil {
		s := r.current.Load()
		r.options.Logger.Info("route files loaded", "files", s.Files(), "routes", len(s.Routes()))
	}
	return nil
}
