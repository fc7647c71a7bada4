// Package httpapi is the HTTP door: it reads requests strictly, finds out who calls,
// hands over to store, accept and relay, and writes the answers.
package httpapi

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"waybill.dev/services/api/internal/auth"
	"waybill.dev/services/api/internal/body"
	"waybill.dev/services/api/internal/edge"
	"waybill.dev/services/api/internal/spec"
	"waybill.dev/shared/bus"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/store/auditlog"
	"waybill.dev/shared/store/pipeline"
)

// Bus is what the handlers ask of the bus.
type Bus interface {
	Ready() error
	Announce(subject string, body []byte)
	AnnounceAnswered(ctx context.Context, subject string, body []byte, quiet, limit time.Duration) int
	ListRejected(ctx context.Context, account string, since time.Time, limit int, before uint64) ([]bus.Rejected, uint64, error)
}

// Accepter takes events; see package accept.
type Accepter interface {
	Submit(ctx context.Context, s pipeline.Submission, traceParent string) (pipeline.Receipt, error)
}

// Egress decides where callbacks may go and which headers they may carry. Its errors are
// told to callers.
type Egress interface {
	CheckURL(raw string) error
	Origin(raw string) (string, error)
	ValidHeader(name, value string) error
}

// Keys makes API keys, and learns of what was changed about them; see package auth.
type Keys interface {
	NewKey() domain.APIKey
	Import(key string) (domain.APIKey, error)
	Changed(ctx context.Context)
}

// Refusals logs changes that were refused; one that was made is logged with it. See package
// audit.
type Refusals interface {
	Note(ctx context.Context, e domain.AuditEntry)
}

// Gateway has routes besides the ones here; see package gateway.
type Gateway interface {
	// Match returns what answers the request, and the template by which logs and metrics
	// may name it; nil when no route has the path. What answers must be called, once.
	Match(r *http.Request) (answer func(w http.ResponseWriter, r *http.Request, requestID string), template string)
}

// Options of the handler; all but Gateway, Edge, Memory and RateLimit are required.
type Options struct {
	Store          Store
	Bus            Bus
	Accepter       Accepter
	Relay          interface{ Poke() }
	Egress         Egress
	Authenticator  auth.Authenticator
	Keys           Keys
	Refusals       Refusals
	Documents      *spec.Documents
	Gateway        Gateway    // is asked for paths that no route here has; nil: there is none
	Edge           *edge.Edge // nil: requests are seen as their connections have them
	Memory         *body.Memory
	Logger         *slog.Logger
	Registerer     prometheus.Registerer
	TracerProvider trace.TracerProvider
	RetrySchedule  []time.Duration // of the installation
	Retention      time.Duration
	RateLimit      float64 // requests a second of one account; 0: none
}

// Bounds of the time that a request may take, once before its body is read, which has a
// time of its own, and once after. The first is within the two seconds after
// which a caller must know that the store is away. The other is for what has no bound: a
// replay writes a row a delivery, and with a bucket or a consumer all of its keys go.
const (
	budget     = 1800 * time.Millisecond
	longBudget = 20 * time.Second
)

type server struct {
	Options
	// templates has each route as it is documented, by gin's way to write it.
	templates map[string]string
	metrics   *metrics
	limits    *limits
	running   *flights
	tracer    trace.Tracer
}

// call is one request with what is known of its caller.
type call struct {
	*gin.Context
	route     *Route
	principal auth.Principal

	whole  context.Context //nolint:containedctx // of the request, however long it takes
	limit  time.Duration   // of each part
	part   context.Context //nolint:containedctx // of what is done now, see begin
	cancel context.CancelFunc
	memory *body.Memory
	lease  *body.Lease // nil: no body has been read
}

// ctx ends when the time of what is done now is over.
func (c *call) ctx() context.Context { return c.part }

// begin gives what follows the whole of the time that the route has.
func (c *call) begin() {
	if c.cancel != nil {
		c.cancel()
	}
	c.part, c.cancel = context.WithTimeout(c.whole, c.limit)
}

// end gives back what the request has taken.
func (c *call) end() {
	c.cancel()
	c.lease.Release()
}

// New returns the handler of every route.
func New(options Options) http.Handler {
	s := &server{
		Options: options, templates: make(map[string]string),
		metrics: newMetrics(options.Registerer),
		limits:  newLimits(options.RateLimit),
		running: newFlights(),
		tracer:  options.TracerProvider.Tracer("waybill.dev/services/api"),
	}
	gin.SetMode(gin.ReleaseMode)
	engine := gin.New()
	engine.HandleMethodNotAllowed = true
	engine.RedirectTrailingSlash = false
	_ = engine.SetTrustedProxies(nil) // the empty list is always valid: package edge decides
	engine.Use(s.identify, s.observe, s.recover, s.match)
	engine.NoRoute(s.passOn)
	engine.NoMethod(func(c *gin.Context) { s.fail(c, errNoMethod) })
	for _, route := range Routes() {
		path, handler := ginPath(route.Path), s.serve(&route)
		s.templates[path] = route.Path
		engine.Handle(route.Method, path, handler)
		if route.Method == http.MethodGet {
			engine.HEAD(path, handler) // net/http leaves out the body
		}
	}
	return named(engine)
}

// match lets no route have a request whose path has an escaped slash: routes were looked for
// by the decoded path, and such a slash is a part of a segment, not the end of one.
func (s *server) match(c *gin.Context) {
	if u := c.Request.URL; u.RawPath == "" || strings.Count(u.RawPath, "/") == strings.Count(u.Path, "/") {
		return
	}
	c.Writer.Header().Del("Allow")
	c.Set(keyTemplate, noTemplate)
	s.passOn(c)
	c.Abort()
}

// passOn lets the gateway answer.
func (s *server) passOn(c *gin.Context) {
	if s.Gateway != nil {
		if answer, template := s.Gateway.Match(c.Request); answer != nil {
			c.Set(keyTemplate, template)
			c.Status(http.StatusOK) // gin has set 404
			answer(c.Writer, c.Request, c.GetString(keyRequestID))
			c.Writer.WriteHeaderNow() // an empty 404 would get gin's own text
			return
		}
	}
	s.fail(c, errNoRoute)
}

// ginPath writes a template's {name} as gin's :name.
func ginPath(template string) string {
	return strings.NewReplacer("{", ":", "}", "").Replace(template)
}

// template returns the route that a request has found; "none" for none. It is what logs
// and metrics may tell of a path.
func (s *server) template(c *gin.Context) string {
	if template := c.GetString(keyTemplate); template != "" {
		return template
	}
	if template, ok := s.templates[c.FullPath()]; ok {
		return template
	}
	return noTemplate
}

// serve checks who calls and whether that is permitted, then lets the route answer.
func (s *server) serve(route *Route) gin.HandlerFunc {
	limit := budget
	switch route.Operation {
	case "replayWebhook", "deleteBucket", "deleteConsumer":
		limit = longBudget
	}
	return func(g *gin.Context) {
		c := &call{Context: g, route: route, memory: s.Memory, whole: g.Request.Context(), limit: limit}
		c.begin()
		defer c.end()
		if limit > budget {
			// The deadline for reading, when it passes, would end the request.
			_ = http.NewResponseController(g.Writer).SetReadDeadline(time.Now().Add(limit + budget))
		}
		err := s.admit(c)
		if err == nil {
			err = route.handle(s, c)
		}
		if err != nil {
			s.noteRefusal(c, err)
			s.fail(g, err)
		}
	}
}

func (s *server) admit(c *call) error {
	if c.route.Scope == "" {
		return nil
	}
	principal, err := s.authenticate(c)
	if err != nil {
		return err
	}
	c.principal = principal
	if err := s.limit(c, 1, 0); err != nil {
		return err
	}
	if !principal.May(c.route.Scope) {
		return errForbidden
	}
	if c.route.audited() {
		caller := c.caller()
		c.whole, c.part = auditlog.WithCaller(c.whole, caller), auditlog.WithCaller(c.part, caller)
	}
	return nil
}

// authenticate finds out who calls: whom the context names when the call comes from a
// gateway route, where that was found out, else whose key it carries.
func (s *server) authenticate(c *call) (auth.Principal, error) {
	if principal, ok := auth.FromContext(c.ctx()); ok {
		return principal, nil
	}
	key, ok := auth.Key(c.Request.Header)
	if !ok {
		return auth.Principal{}, errUnauthenticated
	}
	return s.Authenticator.Authenticate(c.ctx(), key)
}
