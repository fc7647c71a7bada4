// Package local serves the routes of a folder of this machine. The folder is compiled into
// a site as a whole or not at all, and watched: a change that is good takes the place of the
// site at once, one that is not is logged, and nothing changes.
package local

import (
	"cmp"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"waybill.dev/config"
	"waybill.dev/services/gateway/internal/folder"
	"waybill.dev/services/gateway/internal/observe"
	"waybill.dev/services/gateway/internal/policy"
	"waybill.dev/services/gateway/internal/ratelimit"
	"waybill.dev/services/gateway/internal/route"
	"waybill.dev/services/gateway/internal/routefile"
	"waybill.dev/services/gateway/internal/site"
	"waybill.dev/services/gateway/internal/upstream"
	"waybill.dev/shared/body"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/egress"
)

// Options of the routes; Egress, Authenticator, Logger and Registerer are required.
type Options struct {
	// Dir is the folder of the route files; empty: the routes that Waybill comes with.
	Dir string
	// Fallback uses the built-in routes also when Dir is missing or has no route file.
	Fallback bool
	// Modules are the handlers that route files may name in addition to the gateway's own: by NAME of
	// $import(./modules/NAME), then by export.
	Modules map[string]map[string]route.Handler
	// Policies are the policies that route files may define; nil: the gateway's own.
	Policies *policy.Registry
	// Reserved are the templates of the paths that are served before any route is asked.
	Reserved []string
	// Variables have the values that $env(NAME) stands for. Version is the version of the process, which
	// WAYBILL_VERSION stands for.
	Variables     site.Variables
	Version       string
	Egress        *egress.Policy
	Authenticator route.Authenticator
	// Tokens also lets people with access tokens in at MCP servers; nil: only keys count.
	Tokens route.Tokens
	// Changes notify AI clients that follow resources; nil: there are no notifications.
	Changes route.Changes
	Memory  *body.Memory // for requests and for answers of back ends; nil: unbounded
	// Account is the one that the routes belong to; empty: domain.DefaultAccount.
	Account string
	// Traffic keeps counts and logs of the requests, as requests of the deployment domain.LocalDeployment; nil:
	// there are none.
	Traffic *observe.Recorder
	// Meters hold callers to their plans; nil: plans have no effect.
	Meters     route.Meters
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// Routes are the routes of the folder. A site is their state at one moment; Routes holds everything that outlives
// sites: connections and counts.
type Routes struct {
	options    Options
	rateLimits ratelimit.Counters
	upstreams  *upstream.Pools
	metrics    *metrics
	current    atomic.Pointer[servedSite]

	mu   sync.Mutex     // held while the site is changed
	seen *folder.Folder // the folder as last read, good or bad
	// refused are the faults of seen, until they have been logged.
	refused site.Faults
	loaded  time.Time   // when the present site was loaded
	fault   site.Faults // faults of the folder; nil: the folder is what is served
	faultAt time.Time
}

// servedSite is a site together with the parts that serve it.
type servedSite struct {
	*site.Site

	runtime *route.Runtime
}

// New loads the routes. The error has one line for each fault of the route files.
func New(options Options) (*Routes, error) {
	r := &Routes{
		options: options.complete(), rateLimits: ratelimit.NewPool(0, nil).Of(""),
		upstreams: upstream.NewPools(options.Egress), metrics: newMetrics(options.Registerer),
	}
	files, seen, err := r.options.open()
	if err != nil {
		return nil, err
	}
	r.seen = seen
	compiled, faults := r.options.compile(files)
	if len(faults) > 0 {
		return nil, fmt.Errorf("the routes can't be used:\n%w", faults)
	}
	r.current.Store(r.serve(compiled))
	r.loaded = time.Now()
	return r, nil
}

// Check reads the folder as New does, and returns its routes, or everything that is wrong with them. Nothing is
// started. Of Options, Dir, Fallback, Modules, Policies, Reserved and Variables are needed.
func Check(options Options) ([]site.Info, site.Faults, error) {
	options = options.complete()
	files, _, err := options.open()
	if err != nil {
		return nil, nil, err
	}
	compiled, faults := options.compile(files)
	if len(faults) > 0 {
		return nil, faults, nil
	}
	return compiled.Routes(), nil, nil
}

func (o Options) complete() Options {
	if o.Fallback && !folder.HasRouteFiles(o.Dir) {
		o.Dir = ""
	}
	if o.Policies == nil {
		o.Policies, _ = policy.NewRegistry() // only added policies can make it fail
	}
	return o
}

// open reads the folder for the first time; seen is nil when there is no folder to watch.
func (o Options) open() (files fs.FS, seen *folder.Folder, err error) {
	if o.Dir == "" {
		return config.Files(), nil, nil
	}
	if seen, err = folder.Read(o.Dir, nil); err != nil {
		return nil, nil, err
	}
	return seen, seen, nil
}

func (o Options) compile(files fs.FS) (*site.Site, site.Faults) {
	own := site.Variables{routefile.VariableVersion: cmp.Or(o.Version, "unknown")}
	return site.Compile(files, o.Variables, site.Limits{Account: o.Account, Own: own, Egress: o.Egress, Reserved: o.Reserved, Modules: o.Modules, Policies: o.Policies})
}

// serve combines a site with the parts that serve it.
func (r *Routes) serve(compiled *site.Site) *servedSite {
	return &servedSite{compiled, &route.Runtime{
		Authenticator: r.options.Authenticator, Tokens: r.options.Tokens, Changes: r.options.Changes, RateLimits: r.rateLimits, Upstreams: r.upstreams,
		Memory: r.options.Memory, Logger: r.options.Logger, Called: r.metrics.enter(compiled.Routes()),
		Ended: r.options.Traffic.Of(domain.LocalDeployment, ""), Meters: r.options.Meters, Deployment: domain.LocalDeployment,
	}}
}

// Reload reads the folder and replaces the current routes, whether anything has changed or not. When Reload
// fails, the current routes stay.
func (r *Routes) Reload() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	seen, err := folder.Read(r.options.Dir, r.seen)
	if err != nil {
		return err
	}
	r.seen, r.refused = seen, nil
	if faults := r.replace(seen); len(faults) > 0 {
		return faults
	}
	return nil
}

// replace makes the site of files the current one. Requests in flight finish on the site before. Connections and
// counts that no route uses any more are released.
func (r *Routes) replace(files fs.FS) site.Faults {
	compiled, faults := r.options.compile(files)
	if len(faults) > 0 {
		r.metrics.reloads.WithLabelValues("refused").Inc()
		r.fault, r.faultAt = faults, time.Now()
		return faults
	}
	r.loaded, r.fault = time.Now(), nil
	before := r.current.Swap(r.serve(compiled))
	r.metrics.leave(before.Routes(), compiled.Routes())
	r.metrics.reloads.WithLabelValues("done").Inc()
	r.upstreams.Keep(compiled.Upstreams())
	return nil
}

// Match returns the function that answers the request, and the template that logs and metrics may use for its
// path; empty: no route has the path, and the answer says so. requestID is reported with the answer, whose header
// already has it.
func (r *Routes) Match(request *http.Request) (answer func(w http.ResponseWriter, r *http.Request, requestID string), template string) {
	s := r.current.Load()
	return s.Match(s.runtime, request)
}

// ServeHTTP answers with the routes alone, without anything of Waybill's own.
func (r *Routes) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	s := r.current.Load()
	s.Serve(s.runtime, w, request)
}
