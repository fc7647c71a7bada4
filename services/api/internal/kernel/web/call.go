package web

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/gin-gonic/gin"

	"waybill.dev/services/api/internal/kernel/auth"
	"waybill.dev/shared/apikey"
	"waybill.dev/shared/body"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/edge"
	"waybill.dev/shared/news"
	"waybill.dev/shared/requestid"
	"waybill.dev/shared/store/auditlog"
)

// noTemplate is the template of a request whose path has no route.
const noTemplate = "none"

// Call is one request, with its caller.
type Call struct {
	Request   *http.Request
	Writer    http.ResponseWriter
	Principal apikey.Principal // zero if the route needs no key

	kernel   *kernel
	gin      *gin.Context
	route    *route // nil: the path has none
	id       string // id of the request
	template string // template of the path, for logs and metrics

	whole  context.Context //nolint:containedctx // of the request, however long it takes
	part   context.Context //nolint:containedctx // of what is done now, see begin
	cancel context.CancelFunc
	lease  *body.Lease // nil: no body has been read

	made      map[news.Kind]string // ids of the things that were made
	unchanged bool

	requestParts
}

// take returns the handler of the requests for which gin has found r; nil: no route was found.
func (k *kernel) take(r *route, answer func(*Call)) gin.HandlerFunc {
	template := noTemplate
	if r != nil {
		template = r.Path
	}
	return func(g *gin.Context) {
		c := &Call{Request: g.Request, Writer: g.Writer, kernel: k, gin: g, route: r, template: template}
		c.identify()
		started := time.Now()
		c.run(answer)
		c.observe(time.Since(started))
	}
}

// identify sets the request's id: the caller's own when it is 1 to 128 visible ASCII characters,
// otherwise a new one. It also sets the headers of every answer.
func (c *Call) identify() {
	c.id = requestid.Of(c.Request.Header)
	header := c.Writer.Header()
	header.Set(requestid.Header, c.id)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Cache-Control", "no-store")
}

// run runs answer and finishes the request; see answerSlashes.
func (c *Call) run(answer func(*Call)) {
	defer c.recovered()
	if escapedSlash(c.Request.URL) {
		answer = (*Call).answerSlashes
	}
	answer(c)
}

// observe counts the request by its route, never by its path.
func (c *Call) observe(took time.Duration) {
	status := c.gin.Writer.Status()
	if c.route != nil && (c.route.Stream || c.route.Wait > 0) && status/100 == 2 {
		took = 0 // the duration of a stream says nothing about the speed of answers
	}
	if c.route != nil && c.template == c.route.Path {
		c.kernel.metrics.routed(c.route, c.Request.Method, status, took)
	} else {
		c.kernel.metrics.request(c.Request.Method, c.template, status, took)
	}
	if log := c.kernel.Logger; log.Enabled(c.Request.Context(), slog.LevelDebug) {
		log.Debug("request", "method", c.Request.Method, "route", c.template, "status", status,
			"duration", took, "requestId", c.id)
	}
}

// recovered answers a panic with a problem that reveals no internals. The value of the panic is logged
// only when the runtime made it: any other may hold a secret.
func (c *Call) recovered() {
	value := recover()
	if value == nil {
		return
	}
	if err, ok := value.(error); ok && err == http.ErrAbortHandler { //nolint:errorlint // net/http compares it so, too
		panic(value)
	}
	text := fmt.Sprintf("%T", value)
	if err, ok := value.(runtime.Error); ok {
		text = err.Error()
	}
	c.kernel.Logger.Error("panic while serving a request", "panic", text, "route", c.template,
		"requestId", c.id, "stack", string(debug.Stack()))
	if c.gin.Writer.Written() {
		panic(http.ErrAbortHandler) // a cut answer must not look like a complete one
	}
	c.fail(errInternal)
}

// serve authenticates the caller, checks the caller's rights, and calls the route's handler.
func (c *Call) serve() {
	c.whole = c.Request.Context()
	c.begin()
	defer c.end()
	if c.route.Long {
		// An expired read deadline would end the request.
		_ = http.NewResponseController(c.Writer).SetReadDeadline(time.Now().Add(longBudget + budget))
	}
	if c.route.Wait > 0 {
		deadline := time.Now().Add(c.route.limit + budget)
		_ = http.NewResponseController(c.Writer).SetReadDeadline(deadline)
		_ = http.NewResponseController(c.Writer).SetWriteDeadline(deadline.Add(longBudget))
	}
	if c.route.Stream {
		_ = http.NewResponseController(c.Writer).SetReadDeadline(time.Time{})
	}
	err := c.admit()
	if err == nil {
		err = c.route.Handle(c)
	}
	if err != nil {
		c.noteRefusal(err)
		c.fail(err)
		return
	}
	c.tell()
}

// Made notes the id of a new thing, of a kind in the route's Tells.
func (c *Call) Made(kind news.Kind, id string) {
	if c.made == nil {
		c.made = make(map[news.Kind]string)
	}
	c.made[kind] = id
}

// Unchanged says that the request has changed nothing.
func (c *Call) Unchanged() { c.unchanged = true }

// tell announces the changes that the route makes.
func (c *Call) tell() {
	if c.unchanged {
		return
	}
	for _, kind := range c.route.Tells {
		id := c.made[kind]
		for _, named := range c.route.names {
			if named.kind == string(kind) {
				id = c.Param(named.parameter)
			}
		}
		c.kernel.News.Note(c.Principal.Account, kind, id)
	}
}

// begin starts the full time limit of the route again.
func (c *Call) begin() {
	if c.cancel != nil {
		c.cancel()
	}
	if c.route.Stream {
		c.part, c.cancel = context.WithCancel(c.whole)
		return
	}
	c.part, c.cancel = context.WithTimeout(c.whole, c.route.limit)
}

// end releases the resources of the request.
func (c *Call) end() {
	c.cancel()
	c.lease.Release()
}

// Context returns the context of the current part of the request. It ends with that part's time limit.
func (c *Call) Context() context.Context { return c.part }

// admit authenticates the caller, and refuses callers that may not use the route, or not now.
func (c *Call) admit() error {
	if c.route.Scope == "" {
		c.audit()
		return nil
	}
	var err error
	if c.Principal, err = c.authenticate(c.part); err != nil {
		return err
	}
	if err := c.charge(1, 0); err != nil {
		return err
	}
	if !c.route.permits(c.Principal) {
		return c.lacks()
	}
	c.audit()
	return nil
}

// audit attributes changes in the audit log to the caller, if the route makes any.
func (c *Call) audit() {
	if c.route.Action != "" {
		caller := c.caller()
		c.whole, c.part = auditlog.WithCaller(c.whole, caller), auditlog.WithCaller(c.part, caller)
	}
}

// authenticate finds the caller: in the context if the call comes from a gateway route, which has
// already authenticated the caller, otherwise by the key in the request.
func (c *Call) authenticate(ctx context.Context) (apikey.Principal, error) {
	if principal, ok := auth.FromContext(ctx); ok {
		return principal, nil
	}
	key, ok := apikey.FromHeader(c.Request.Header)
	if !ok {
		return apikey.Principal{}, apikey.ErrUnauthenticated
	}
	return c.kernel.Authenticator.Authenticate(ctx, key)
}

// Holds reports whether the caller may still use the route, for routes that answer for a long time.
// While that can't be checked, it returns true: no key can be revoked in that time either.
func (c *Call) Holds() bool {
	ctx, cancel := context.WithTimeout(c.part, budget)
	defer cancel()
	now, err := c.authenticate(ctx)
	if errors.Is(err, domain.ErrUnavailable) {
		return true
	}
	return err == nil && now.Account == c.Principal.Account && c.route.permits(now)
}

// Bootstrap reports whether the caller uses the bootstrap key.
func (c *Call) Bootstrap() bool { return c.Principal.Type == apikey.TypeBootstrap }

// view returns the request as it is seen from outside.
func (c *Call) view() edge.View {
	if e := c.kernel.Edge; e != nil && !e.Plain() && !edge.Known(c.Request.Context()) {
		return e.See(c.Request)
	}
	return edge.Of(c.Request)
}

// seen returns the request with a context that says how it is seen from outside. That makes a copy,
// which only code that can't call view needs.
func (c *Call) seen() *http.Request {
	if e := c.kernel.Edge; e != nil && !e.Plain() && !edge.Known(c.Request.Context()) {
		return c.Request.WithContext(edge.With(c.Request.Context(), e.See(c.Request)))
	}
	return c.Request
}

// WholeLink is Link for places where a path alone is not enough.
func (c *Call) WholeLink(path string) string {
	v := c.view()
	if v.Base == "" {
		v.Base = v.Scheme + "://" + v.Host
	}
	return v.Base + path
}

// Link returns the URL of a path of ours.
func (c *Call) Link(path string) string { return c.view().Base + path }
