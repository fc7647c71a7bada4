package gateway

import (
	"context"
	"time"
)

// watchEvery is how often the folder is looked at. Asking works on every file system, be it
// a network's or one that a container mounts, where being told of changes does not.
const watchEvery = 300 * time.Millisecond

// Run watches the folder until ctx ends, then lets go of the connections to back ends.
func (g *Gateway) Run(ctx context.Context) error {
	defer func() {
		if err := g.current.Load().close(); err != nil {
			g.Logger.Warn("gateway routes did not end well", "error", err)
		}
	}()
	if g.Dir == "" {
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
		err := g.look()
		if err != nil && !unreadable {
			g.Logger.Error("the folder of the route files can't be read; the present routes stay", "folder", g.Dir, "error", err)
		}
		unreadable = err != nil
	}
}

// look takes over what has changed. Faults are logged the next time, if the folder is still
// as it is: they may be those of files that are just being written.
func (g *Gateway) look() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	now, err := readFolder(g.Dir, g.seen)
	if err != nil {
		return err
	}
	same := now.equal(g.seen)
	g.seen = now
	if same {
		for _, fault := range g.refused {
			g.Logger.Error("route files refused; the present routes stay", "file", fault.File,
				"operation", fault.Operation, "pointer", fault.Pointer, "fault", fault.Message)
		}
		g.refused = nil
		return nil
	}
	if g.refused = g.replace(now); g.refused == nil {
		t := g.current.Load()
		g.Logger.Info("route files loaded", "files", t.files, "routes", len(t.routes))
	}
	return nil
}
