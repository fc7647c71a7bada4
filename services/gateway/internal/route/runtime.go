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

// Authenticator finds out to whom a key belongs. It fails with apikey.ErrUnauthenticated, or with an
// error that wraps domain.ErrUnavailable when it can't find out now.
type Authenticator interface {
	Authenticate(ctx context.Context, key string) (apikey.Principal, error)
}

// Runtime has the parts that the routes of a site use while the site is served. Routes never hold any
// of them: a site is compiled without a Runtime, and the site that replaces it uses the same
// connections and counts.
type Runtime struct {
	Authenticator Authenticator
	// Tokens also lets people with access tokens in at MCP servers; nil: only keys count.
	Tokens Tokens
	// Changes notify AI clients that follow resources; nil: there are no notifications.
	Changes Changes
	// ClientCertificates judges client certificates; nil: none is valid.
	ClientCertificates ClientCertificates
	RateLimits         ratelimit.Counters
	Upstreams          *upstream.Pools
	Memory             *body.Memory // for requests and for answers of back ends; nil: unbounded
	Logger             *slog.Logger
	// Called is called for each call of a route, with the index of the route in its site, whether an
	// MCP server made the call, its status (0 for a stream), and how long it took.
	Called func(route int, inside bool, status int, took time.Duration)
	// Ended is called at the end of the answer to each request, also when no route was found; nil:
	// requests are not recorded.
	Ended func(*Record)
	// Meters hold callers to their plans; nil: nothing is metered. Deployment is the deployment of
	// the site.
	Meters     Meters
	Deployment string
}
