// Package rollout serves what users have deployed. It follows the version of what gateways
// serve: which deployments there are, and which build of each is active. The table of a
// deployment, its site, is made at its first request, and its successor beside it: then one
// pointer is swapped, and requests in hand go on with the table that they began with.
package rollout

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"waybill.dev/services/gateway/internal/follow"
	"waybill.dev/services/gateway/internal/hosts"
	"waybill.dev/services/gateway/internal/observe"
	"waybill.dev/services/gateway/internal/ratelimit"
	"waybill.dev/services/gateway/internal/route"
	"waybill.dev/services/gateway/internal/site"
	"waybill.dev/services/gateway/internal/upstream"
	"waybill.dev/shared/body"
	"waybill.dev/shared/edge"
	"waybill.dev/shared/signal"
	"waybill.dev/shared/store/deployments"
	"waybill.dev/shared/store/domains"
)

// Defaults of the options.
const (
	DefaultTables   = 1000
	DefaultInFlight = 512
)

// readTime bounds a reading of changes.
const readTime = 10 * time.Second

// Store is where deployments are read.
type Store interface {
	GatewayVersion(ctx context.Context) (int64, error)
	Served(ctx context.Context, since int64) ([]deployments.Served, int64, error)
	Source(ctx context.Context, deployment, build string) (deployments.Source, error)
}

// Domains is where custom domains are read.
type Domains interface {
	ServedDomains(ctx context.Context, since int64) ([]domains.Served, int64, error)
}

// Options of a rollout; TableMemory, Tables, InFlight and Memory may be left out.
type Options struct {
	Store Store
	Bus   follow.Bus
	// Domains are custom domains; nil: there are none.
	Domains Domains
	// DomainsChanged is called after custom domains have changed; may be nil. It does not wait.
	DomainsChanged func()
	// Compile makes the site of a build. Requests wait for one that is awaited; what is not, may rest meanwhile.
	Compile       func(ctx context.Context, source *deployments.Source, awaited bool) (*site.Site, error)
	Guard         *upstream.Guard   // checks connections to back ends
	Services      upstream.Services // sends requests through tunnels; may be nil
	Authenticator route.Authenticator
	// ClientCertificates judges those of callers; nil: none is good.
	ClientCertificates route.ClientCertificates
	Memory             *body.Memory // for requests and for answers of back ends; nil: without a bound
	Edge               *edge.Edge
	// TableMemory is what the tables of all deployments may take in memory, in bytes; 0: DefaultMemory. One
	// account may take a tenth of it.
	TableMemory int64
	// Tables is how many deployments have their table in memory; 0: DefaultTables. Beyond
	// that, one goes of the account that has most, the one that was used least recently.
	Tables int
	// InFlight is how many requests of one deployment are served at a time; 0: DefaultInFlight.
	InFlight int64
	// Traffic keeps counts and logs of the requests; nil: nobody does.
	Traffic    *observe.Recorder
	Meters     route.Meters // hold callers to their plans; nil: nobody does
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// Rollout is what this process knows of all deployments.
type Rollout struct {
	options Options
	metrics *metrics
	// byName is replaced at each change; nil: nothing was read yet.
	byName atomic.Pointer[map[string]*deployment]
	byHost atomic.Pointer[map[string]*hosts.Domain] // likewise
	nudges signal.Signal
	slots  chan struct{}  // one for each table that is being made
	making sync.WaitGroup // those who make tables

	used   atomic.Int64     // by tables, in bytes
	counts *ratelimit.Bound // of the counts of rate limits

	version atomic.Int64 // of what is served

	reading sync.Mutex // held while changes are read
	place   follow.Place
	byID    map[string]*hosts.Domain // custom domains

	mu     sync.Mutex               // of what follows
	loaded map[*deployment]struct{} // those that have a table
	shares map[string]*share        // by account
	closed bool
}

// New returns a rollout that knows nothing yet.
func New(o Options) *Rollout {
	if o.Tables == 0 {
		o.Tables = DefaultTables
	}
	if o.InFlight == 0 {
		o.InFlight = DefaultInFlight
	}
	if o.TableMemory == 0 {
		o.TableMemory = DefaultMemory
	}
	r := &Rollout{
		options: o, nudges: signal.New(), slots: make(chan struct{}, makers),
		loaded: make(map[*deployment]struct{}), shares: make(map[string]*share), counts: ratelimit.NewBound(o.TableMemory / ratelimit.BytesOfCount),
	}
	r.metrics = newMetrics(o.Registerer, r)
	return r
}

// Ready reports whether it is known what is to be served.
func (r *Rollout) Ready() bool { return r.byName.Load() != nil && r.byHost.Load() != nil }

// Nudge has changes looked for at once.
func (r *Rollout) Nudge() { r.nudges.Give() }

// Deployment returns what answers for a deployment, and whose it is. The answer to a name that
// nobody has says no more than that.
func (r *Rollout) Deployment(name string) hosts.Site {
	byName := r.byName.Load()
	if byName == nil {
		return hosts.Site{Handler: refusal{errNotYet}}
	}
	if d := (*byName)[name]; d != nil {
		return hosts.Site{Account: d.account, Handler: d}
	}
	return hosts.Site{Handler: refusal{errMissing}}
}

// Run follows the version until ctx ends. Stop serving before.
func (r *Rollout) Run(ctx context.Context) error {
	defer r.close()
	return follow.Follower{
		Bus: r.options.Bus, Nudges: r.nudges, Update: r.Update, Logger: r.options.Logger, Fails: "it can't be read what is deployed; what is known goes on",
	}.Run(ctx)
}

// close ends the making of tables and lets go of connections to back ends.
func (r *Rollout) close() {
	r.mu.Lock()
	r.closed = true
	for d := range r.loaded {
		r.unload(d)
	}
	r.mu.Unlock()
	r.making.Wait()
}

// Update reads what has changed and takes it over. Tables that are in use are made anew at
// once, the others at their next request.
func (r *Rollout) Update(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	r.reading.Lock()
	defer r.reading.Unlock()
	version, err := r.options.Store.GatewayVersion(ctx)
	if err != nil {
		return fmt.Errorf("look for changes of deployments: %w", err)
	}
	if r.place.At(version) {
		r.catchUp()
		return nil
	}
	read, all, err := follow.Read(ctx, &r.place, r.read)
	if err != nil {
		return err
	}
	r.take(read.deployments, all)
	r.version.Store(r.place.Version())
	r.takeDomains(read.domains, all)
	return nil
}

// changes are what has changed since a version.
type changes struct {
	domains     []domains.Served
	deployments []deployments.Served
}

// read reads domains first: so the deployments that they lead to are known.
func (r *Rollout) read(ctx context.Context, since int64) (c changes, version int64, err error) {
	of := int64(math.MaxInt64)
	if r.options.Domains != nil {
		if c.domains, of, err = r.options.Domains.ServedDomains(ctx, since); err != nil {
			return c, 0, fmt.Errorf("read changes of custom domains: %w", err)
		}
	}
	if c.deployments, version, err = r.options.Store.Served(ctx, since); err != nil {
		return c, 0, fmt.Errorf("read changes of deployments: %w", err)
	}
	return c, min(version, of), nil
}

// take takes changes over; all says that they are everything there is.
func (r *Rollout) take(changes []deployments.Served, all bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := map[string]*deployment{}
	if known := r.byName.Load(); known != nil {
		before = *known
	}
	after := make(map[string]*deployment, len(before)+len(changes))
	if !all {
		maps.Copy(after, before)
	}
	for _, change := range changes {
		if change.Removed {
			delete(after, change.Name)
			continue
		}
		d := before[change.Name]
		if d == nil {
			d = &deployment{rollout: r, name: change.Name, account: change.Account, share: r.share(change.Account)}
		}
		after[change.Name] = d
		d.want(&wanted{change.State, change.ActiveBuild})
	}
	for name, d := range before {
		if after[name] == nil {
			d.want(&wanted{})
		}
	}
	r.byName.Store(&after)
}

// catchUp loads again the builds whose last load failed.
func (r *Rollout) catchUp() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for d := range r.loaded {
		if d.table.Load().build != d.wanted.Load().build {
			d.make()
		}
	}
}
