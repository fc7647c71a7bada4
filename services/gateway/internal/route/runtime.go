package route

import (
	"context"
	"log/slog"
	"time"

	"waybill.dev/services/gateway/internal/ratelimit"
	"waybill.dev/services/gateway/internal/upstream"
	"waybill.dev/shared/apikey"
	"waybill.dev/shared/body"
)

// Authenticator finds out whose key it is. It fails with apikey.ErrUnauthenticated, or with
// an error that wraps domain.ErrUnavailable when it can't tell now.
type Authenticator interface {
	Authenticate(ctx context.Context, key string) (apikey.Principal, error)
}

// Runtime is what the routes of a site work with while it is served. What they are made of
// never holds any of it: a site is compiled without, and its successor goes on with the same
// connections and the same counts.
type Runtime struct {
	Authenticator Authenticator
	// Tokens lets people in at MCP servers besides; nil: keys alone do.
	Tokens Tokens
	// Changes tell AI clients that follow resources; nil: nobody can be told.
	Changes Changes
	// ClientCertificates judges those of callers; nil: none is good.
	ClientCertificates ClientCertificates
	RateLimits         ratelimit.Counters
	Upstreams          *upstream.Pools
	Memory             *body.Memory // for requests and for answers of back ends; nil: without a bound
	Logger             *slog.Logger
	// Called is told of each call: by the place of the route among those of its site,
	// whether an MCP server made it, its status (0 for a stream), and how long it took.
	Called func(route int, inside bool, status int, took time.Duration)
	// Ended is told of each request when its answer has ended, also of those that no route was
	// found for; nil: nobody is told.
	Ended func(*Record)
	// Meters hold callers to their plans; nil: nothing is metered. Deployment is what the site is of.
	Meters     Meters
	Deployment string
}
