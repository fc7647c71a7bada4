// Package web is the kernel of the HTTP service. It finds a request's route and its caller, applies
// their limits, reads the request, and writes answers, problems, logs and the audit log's refusals.
// The kernel does not know what routes do: each family of resources is a package of its own, which
// returns its routes and calls the store through a port of its own.
//
// A handler reads the request, checks it once, calls its port, and answers:
//
//	ref, form := Ref(c), c.Form()
//	changes := read(form)
//	if err := c.Check(); err != nil {
//		return err
//	}
//	bucket, err := h.store.UpdateBucket(c.Context(), ref, changes.Make)
//	if err != nil {
//		return err
//	}
//	return c.Answer(http.StatusOK, view(bucket))
package web

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"strings"

	"github.com/gin-gonic/gin"
	"github.com/prometheus/client_golang/prometheus"

	"waybill.dev/services/api/internal/kernel/auth"
	"waybill.dev/shared/body"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/edge"
	"waybill.dev/shared/news"
)

// Keys is notified of changes of API keys; see package auth.
type Keys interface {
	InvalidateKeys(ctx context.Context)
}

// Refusals logs refused changes. A change that was made is logged in the same transaction. See
// package audit.
type Refusals interface {
	Note(ctx context.Context, e domain.AuditEntry)
}

// Gateway has further routes; see package gateway.
type Gateway interface {
	// Match returns the function that answers the request, and the template that logs and metrics
	// may use for its path; empty: no route has the path, and the answer says so. The function must
	// be called once. nil: there is no answer.
	Match(r *http.Request) (answer func(w http.ResponseWriter, r *http.Request, requestID string), template string)
}

// Options of the handler. Logger and Registerer are required, as are the parts that the routes
// need: Authenticator for routes with a scope, Keys for routes that change keys, Refusals for
// routes with an action.
type Options struct {
	Routes        []Route
	Authenticator auth.Authenticator
	Keys          Keys
	Refusals      Refusals
	News          News
	Gateway       Gateway      // for paths without a route here; nil: there is none
	Edge          *edge.Edge   // nil: requests are seen as they arrive on their connections
	Memory        *body.Memory // nil: there is no common bound for bodies
	Logger        *slog.Logger
	Registerer    prometheus.Registerer
	RateLimit     float64 // requests a second of one account; 0: no limit
}

// News notifies the watchers of an account of changes in it; an empty id stands for many.
type News interface {
	Note(account string, kind news.Kind, id string)
}

// kernel is the state that all requests share.
type kernel struct {
	Options
	metrics *metrics
	limits  *limits
	turns   *turns
	slashes []*route // routes with Slashes
}

// New returns the handler of every route.
func New(options Options) http.Handler {
	k := &kernel{Options: options, metrics: newMetrics(options.Registerer), limits: newLimits(options.RateLimit), turns: newTurns()}
	gin.SetMode(gin.ReleaseMode)
	engine := gin.New()
	engine.HandleMethodNotAllowed = true
	engine.RedirectTrailingSlash = false
	_ = engine.SetTrustedProxies(nil) // can't fail with an empty list; package edge decides about proxies
	engine.NoRoute(k.take(nil, (*Call).passOn))
	engine.NoMethod(k.take(nil, func(c *Call) { c.fail(errNoMethod) }))
	aliases := make(map[string]string)
	for i := range options.Routes {
		r := prepare(&options.Routes[i])
		r.metrics = k.metrics.of(r.Route)
		path, handler := ginPath(r.Path), k.take(r, (*Call).serve)
		engine.Handle(r.Method, path, handler)
		if r.Method == http.MethodGet {
			engine.HEAD(path, handler) // net/http leaves out the body
		}
		if r.Slashes {
			k.slashes = append(k.slashes, r)
		}
		for _, alias := range r.Aliases {
			aliases[alias] = r.Path
		}
	}
	return named(engine, aliases)
}

// ginPath writes a template's {name} as gin's :name.
func ginPath(template string) string {
	return strings.NewReplacer("{", ":", "}", "").Replace(template)
}

// named returns a handler that answers an alias like its path.
func named(next http.Handler, aliases map[string]string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if path, ok := aliases[r.URL.Path]; ok && r.URL.RawPath == "" {
			own, place := *r, *r.URL
			place.Path, own.URL = path, &place
			r = &own
		}
		next.ServeHTTP(w, r)
	})
}

// passOn passes the request to the gateway.
func (c *Call) passOn() {
	if c.kernel.Gateway != nil {
		r := c.seen()
		if answer, template := c.kernel.Gateway.Match(r); answer != nil {
			c.template = cmp.Or(template, noTemplate)
			c.gin.Status(http.StatusOK) // gin has set 404
			answer(c.Writer, r, c.id)
			c.gin.Writer.WriteHeaderNow() // otherwise gin adds its own text to an empty 404
			return
		}
	}
	c.fail(errNoRoute)
}
