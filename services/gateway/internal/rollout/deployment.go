package rollout

import (
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"waybill.dev/services/gateway/internal/route"
	"waybill.dev/services/gateway/internal/site"
	"waybill.dev/services/gateway/internal/upstream"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/edge"
	"waybill.dev/shared/problem"
	"waybill.dev/shared/requestid"
)

// Answers when there is no site. They are never changed.
var (
	errMissing = problem.Missing()
	errNotYet  = unavailable("The gateway has just started. Try again.", 1*time.Second)
	errBuilds  = unavailable("The first build of the deployment is under way. Try again.", 2*time.Second)
	errNoTable = unavailable("The deployment can't be loaded now. Try again.", 2*time.Second)
	errNoRoom  = unavailable("The gateway has no room in memory for the deployment beside those of its account that answer requests now. Try again.", 2*time.Second)
	errTooMany = unavailable("The deployment has too many requests in flight. Try again.", 1*time.Second)
)

func unavailable(detail string, retryAfter time.Duration) *problem.Problem {
	p := problem.New(problem.Unavailable, detail)
	p.RetryAfter = retryAfter
	return p
}

// refusal answers every request with a problem.
type refusal struct{ *problem.Problem }

// ServeHTTP implements http.Handler.
func (p refusal) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.Write(w, r, head(w))
}

// head begins an answer, and returns the id of the request. The gateway chooses the id: callers can't choose
// the id under which their request is found.
func head(w http.ResponseWriter) (id string) {
	id = requestid.New()
	header := w.Header()
	header.Set(requestid.Header, id)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Cache-Control", "no-store")
	return id
}

// deployment is a deployment. Without a table it takes about 300 bytes.
type deployment struct {
	rollout  *Rollout
	name     string
	account  string
	share    *share
	wanted   atomic.Pointer[wantedState] // the state that the database asks for
	table    atomic.Pointer[table]       // nil: not made yet, or dropped
	inFlight atomic.Int64
	used     atomic.Int64 // when its table was last used, in ns

	mu     sync.Mutex
	making *making // nil: no table is being made
}

// wantedState is the state that a deployment should have.
type wantedState struct {
	state domain.DeploymentState
	build string // empty: nothing is served
}

// table is what a deployment serves. Connections and counts outlive a table: the next table takes them over.
type table struct {
	build   string
	site    *site.Site
	runtime *route.Runtime
	use     *use
}

// ServeHTTP implements http.Handler.
func (d *deployment) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id := head(w)
	if e := d.rollout.options.Edge; !e.Plain() {
		r = r.WithContext(edge.With(r.Context(), e.See(r)))
	}
	if d.inFlight.Add(1) > d.rollout.options.InFlight {
		d.inFlight.Add(-1)
		d.rollout.metrics.overLimit.Inc()
		d.refuse(w, r, id, errTooMany)
		return
	}
	defer d.inFlight.Add(-1)
	t := d.table.Load()
	if t == nil {
		var p *problem.Problem
		if t, p = d.load(r.Context()); p != nil {
			d.refuse(w, r, id, p)
			return
		}
	}
	d.used.Store(time.Now().UnixNano())
	t.use.hold()
	defer t.use.leave()
	answer, _ := t.site.Match(t.runtime, r)
	answer(w, r, id)
}

// refuse answers without a table. The request counts as traffic of the deployment, with no build.
func (d *deployment) refuse(w http.ResponseWriter, r *http.Request, id string, p *problem.Problem) {
	site.Refuse(&route.Runtime{Ended: d.rollout.options.Traffic.Of(d.name, "")}, w, r, id, p)
}

// newTable returns the table of a build. It takes over the connections of the table before, which may be
// nil. The counts of rate limits continue in any case. Deployments never share counts, even if their limits
// have the same name.
func (d *deployment) newTable(build string, compiled *site.Site, before *table) *table {
	o := &d.rollout.options
	pools := upstream.NewGuardedPools(o.Guard, o.Services)
	if before != nil {
		pools = before.runtime.Upstreams
	}
	return &table{build, compiled, &route.Runtime{
		Authenticator: o.Authenticator, ClientCertificates: o.ClientCertificates, RateLimits: d.share.counts.Of(d.name), Upstreams: pools, Memory: o.Memory,
		Logger: faultsOnly(o.Logger).With("deployment", d.name), Called: func(int, bool, int, time.Duration) {},
		Ended: o.Traffic.Of(d.name, build), Meters: o.Meters, Deployment: d.name,
	}, d.rollout.begin(d.share, compiled)}
}

// want applies a new wanted state. r.mu is held.
func (d *deployment) want(w *wantedState) {
	d.wanted.Store(w)
	t := d.table.Load()
	switch {
	case t == nil || t.build == w.build:
	case w.build == "":
		d.rollout.unload(d)
	default:
		d.startMaking()
	}
}

// drop drops the table. Requests that have it already keep it.
func (d *deployment) drop() {
	if t := d.table.Swap(nil); t != nil {
		t.runtime.Upstreams.Close()
		t.use.leave()
	}
}
