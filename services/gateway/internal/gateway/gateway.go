// Package gateway serves the routes of a folder of route files. The folder is made into a
// table of routes as a whole or not at all, and watched: a change that is good takes the
// place of the table at once, one that is not is logged, and nothing changes.
package gateway

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"waybill.dev/services/gateway/internal/policy"
	"waybill.dev/services/gateway/internal/route"
	"waybill.dev/services/gateway/internal/routefile"
	"waybill.dev/shared/body"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/egress"
)

// Options of a gateway; all but Account, Dir, Fallback, Modules, Reserved and Memory are required.
type Options struct {
	// Dir is the folder of the route files; empty: the routes that Waybill comes with.
	Dir string
	// Fallback takes those too when Dir is missing or has no route file.
	Fallback bool
	// Modules are the handlers that route files may name besides the gateway's own: by
	// NAME of $import(./modules/NAME), then by export.
	Modules map[string]map[string]route.Handler
	// Reserved are the templates of the paths that are served before any route is asked.
	Reserved []string
	// Getenv has the values that $env(NAME) stands for.
	Getenv        func(string) (string, bool)
	Egress        *egress.Policy
	Authenticator policy.Authenticator
	Memory        *body.Memory // for requests and for answers of back ends; nil: without a bound
	// Account is the one that the routes belong to; empty: domain.DefaultAccount.
	Account    string
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// Gateway has the current table of routes.
type Gateway struct {
	Options

	counters *policy.Counters // of the current table; mu is held where it changes
	reserved [][]string       // the segments of Reserved
	metrics  *metrics
	current  atomic.Pointer[table]

	mu   sync.Mutex // of what changes the table
	seen *folder    // what was last looked at, good or bad
	// refused is what is wrong with seen, as long as it has not been logged.
	refused routefile.Faults
}

// New loads the routes. The error has one line for each fault of the route files.
func New(options Options) (*Gateway, error) {
	g := prepare(options)
	files, err := g.open()
	if err != nil {
		return nil, err
	}
	t, faults := g.build(files)
	if len(faults) > 0 {
		return nil, fmt.Errorf("the routes can't be used:\n%w", faults)
	}
	g.metrics.enter(t)
	g.current.Store(t)
	return g, nil
}

func prepare(options Options) *Gateway {
	if options.Fallback && !hasRouteFiles(options.Dir) {
		options.Dir = ""
	}
	if options.Account == "" {
		options.Account = domain.DefaultAccount
	}
	g := &Gateway{Options: options, counters: policy.NewCounters(), metrics: newMetrics(options.Registerer)}
	for _, template := range options.Reserved {
		g.reserved = append(g.reserved, strings.Split(template, "/"))
	}
	return g
}

// open reads the folder for the first time.
func (g *Gateway) open() (fs.FS, error) {
	if g.Dir == "" {
		return shipped(), nil
	}
	seen, err := readFolder(g.Dir, nil)
	if err != nil {
		return nil, err
	}
	g.seen = seen
	return seen, nil
}

// Reload reads the folder and puts its routes in the place of the current ones, whether
// anything has changed or not. When it fails, they stay.
func (g *Gateway) Reload() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	seen, err := readFolder(g.Dir, g.seen)
	if err != nil {
		return err
	}
	g.seen, g.refused = seen, nil
	if faults := g.replace(seen); len(faults) > 0 {
		return faults
	}
	return nil
}

// replace makes the table of files the current one. What the one before has in hand goes on.
func (g *Gateway) replace(files fs.FS) routefile.Faults {
	t, faults := g.build(files)
	if len(faults) > 0 {
		g.metrics.reloads.WithLabelValues("refused").Inc()
		return faults
	}
	g.metrics.enter(t)
	before := g.current.Swap(t)
	g.metrics.leave(before, t)
	g.metrics.reloads.WithLabelValues("done").Inc()
	g.retire(before)
	return nil
}

// retire closes what a table has open as soon as it is not the current one any more, so
// that streams end and idle connections do not wait, and again after its last request.
func (g *Gateway) retire(t *table) {
	if err := errors.Join(t.close(), t.release()); err != nil {
		g.Logger.Warn("gateway routes did not end well", "error", err)
	}
}

// acquire returns the current table, which stays open until it is released.
func (g *Gateway) acquire() *table {
	for {
		if t := g.current.Load(); t.acquire() {
			return t
		}
	}
}

func (g *Gateway) release(t *table) {
	if err := t.release(); err != nil {
		g.Logger.Warn("gateway routes did not end well", "error", err)
	}
}
