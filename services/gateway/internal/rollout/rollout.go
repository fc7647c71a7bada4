// Package rollout serves what users have deployed. It follows the list of deployments and their active builds,
// which has a version. The table of a deployment, which holds its site, is made at the first request. The table
// of a new build is made beside the old one; then one pointer is swapped, and requests in flight finish with the
// table that they began with.
package rollout

import (
	"cmp"
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

// Store has the deployments.
type Store interface {
	GatewayVersion(ctx context.Context) (int64, error)
	Served(ctx context.Context, since int64) ([]deployments.ServedDeployment, int64, error)
	Source(ctx context.Context, deployment, build string) (deployments.Source, error)
}

// Domains has the custom domains.
type Domains interface {
	ServedDomains(ctx context.Context, since int64) ([]domains.ServedDomain, int64, error)
}

// Options of a rollout; TableMemory, Tables, InFlight and Memory may be left out.
type Options struct {
	Store Store
	Bus   follow.Bus
	// Domains has the custom domains; nil: there are none.
	Domains Domains
	// DomainsChanged is called after custom domains have changed; may be nil. It does not wait.
	DomainsChanged func()
	// Compile makes the site of a build. awaited says that requests wait for the site; otherwise the work may
	// pause.
	Compile       func(ctx context.Context, source *deployments.Source, awaited bool) (*site.Site, error)
	Guard         *upstream.Guard   // checks connections to back ends
	Services      upstream.Services // sends requests through tunnels; may be nil
	Authenticator route.Authenticator
	// ClientCertificates judges client certificates; nil: none is valid.
	ClientCertificates route.ClientCertificates
	Memory             *body.Memory // for requests and for answers of back ends; nil: unbounded
	Edge               *edge.Edge
	// TableMemory is how much memory the tables of all deployments may take, in bytes; 0: DefaultMemory. One
	// account may take a tenth of it.
	TableMemory int64
	// Tables is how many deployments have their table in memory; 0: DefaultTables. Beyond
	// that, one goes of the account that has most, the one that was used least recently.
	Tables int
	// InFlight is how many requests of one deployment are served at a time; 0: DefaultInFlight.
	InFlight int64
	// Traffic keeps counts and logs of the requests; nil: there are none.
	Traffic    *observe.Recorder
	Meters     route.Meters // hold callers to their plans; nil: plans have no effect
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// Rollout is the state of all deployments in this process.
type Rollout struct {
	options Options
	metrics *metrics
	// byName is replaced at each change; nil: nothing was read yet.
	byName atomic.Pointer[map[string]*deployment]
	byHost atomic.Pointer[map[string]*hosts.Domain] // likewise
	nudges signal.Signal
	slots  chan struct{}  // one for each table that is being made
	making sync.WaitGroup // counts the goroutines that make tables

	used   atomic.Int64     // by tables, in bytes
	counts *ratelimit.Bound // for the counts of rate limits

	version atomic.Int64 // version of the list that is served

	reading sync.Mutex // held while changes are read
	place   follow.Place
	byID    map[string]*hosts.Domain // custom domains

	mu     sync.Mutex               // guards the fields below
	loaded map[*deployment]struct{} // deployments with a table
	shares map[string]*share        // by account
	closed bool
}

// New returns a rollout that knows nothing yet.
func New(o Options) *Rollout {
	o.Tables = cmp.Or(o.Tables, DefaultTables)
	o.InFlight = cmp.Or(o.InFlight, DefaultInFlight)
	o.TableMemory = cmp.Or(o.TableMemory, DefaultMemory)
	r := &Rollout{
		options: o, nudges: signal.New(), slots: make(chan struct{}, makers),
		loaded: make(map[*deployment]struct{}), shares: make(map[string]*share), counts: ratelimit.NewBound(o.TableMemory / ratelimit.BytesOfCount),
	}
	r.metrics = newMetrics(o.Registerer, r)
	return r
}

// Ready reports whether the deployments and domains have been read.
func (r *Rollout) Ready() bool { return r.byName.Load() != nil && r.byHost.Load() != nil }

// Nudge makes Run look for changes at once.
func (r *Rollout) Nudge() { r.nudges.Give() }

// Deployment returns the site of a deployment. For an unknown name, the answer says only that there is none.
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

// close ends the making of tables and closes connections to back ends.
func (r *Rollout) close() {
	r.mu.Lock()
	r.closed = true
	for d := range r.loaded {
		r.unload(d)
	}
	r.mu.Unlock()
	r.making.Wait()
}

// Update reads the changes and applies them. Tables in use are replaced at once, the others at their next
// request.
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
	r.apply(read.deployments, all)
	r.version.Store(r.place.Version())
	r.takeDomains(read.domains, all)
	return nil
}

// changes are the changes since a version.
type changes struct {
	domains     []domains.ServedDomain
	deployments []deployments.ServedDeployment
}

// read reads domains first, so that the deployments they lead to are in the lists that are read after them.
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

// apply applies changes; all says that they are the complete list.
func (r *Rollout) apply(changes []deployments.ServedDeployment, all bool) {
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
		d.want(&wantedState{change.State, change.ActiveBuild})
	}
	for name, d := range before {
		if after[name] == nil {
			d.want(&wantedState{})
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
			d.startMaking()
		}
	}
}
