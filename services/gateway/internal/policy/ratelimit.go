package policy

import (
	"context"
	"net/netip"
	"time"

	"waybill.dev/services/gateway/internal/ratelimit"
	"waybill.dev/services/gateway/internal/route"
	"waybill.dev/shared/problem"
)

// rateLimit refuses callers that send too many requests.
type rateLimit struct {
	limit  ratelimit.Limit
	caller func(*route.Request) string
	silent bool // does not tell callers when to come back
}

type rateLimitOptions struct {
	RateLimitBy       string
	RequestsAllowed   float64
	TimeWindowMinutes float64
	HeaderMode        string
}

func rateLimitPolicy() Policy {
	return Policy{
		Name: "rate-limit-inbound", Export: "RateLimitInboundPolicy",
		About: "Refuses callers who ask too often, with 429. Each process counts for itself. Routes that name the same policy share its counts.",
		Options: `{
			"type": "object", "additionalProperties": false,
			"required": ["rateLimitBy", "requestsAllowed", "timeWindowMinutes"],
			"properties": {
				"rateLimitBy": {
					"type": "string", "enum": ["ip", "user", "all"],
					"description": "What is counted: ` + "`ip`" + `, the requests of each address (in IPv6, of each /64 network); ` + "`user`" + `, those of each key, of each client certificate or subject of an access token where there is no key, and of each address as long as none of them is known; ` + "`all`" + `, all requests together."
				},
				"requestsAllowed": {
					"type": "integer", "minimum": 1, "maximum": 1000000000,
					"description": "How many requests one time window allows."
				},
				"timeWindowMinutes": {
					"type": "number", "minimum": 0.00166, "maximum": 44640,
					"description": "How long the window is: from 100 ms to 31 days."
				},
				"headerMode": {
					"type": "string", "enum": ["retry-after", "none"], "default": "retry-after",
					"description": "Whether a refusal says when to come back."
				}
			}
		}`,
		Example: `{"rateLimitBy": "user", "requestsAllowed": 600, "timeWindowMinutes": 1}`,
		New:     typed(newRateLimit),
	}
}

func newRateLimit(o *rateLimitOptions, env *Env) (Parts, []Fault) {
	p := &rateLimit{
		limit: ratelimit.Limit{
			Policy: env.Definition, Allowed: int(o.RequestsAllowed),
			Window: time.Duration(o.TimeWindowMinutes * float64(time.Minute)),
		},
		silent: o.HeaderMode == "none",
	}
	switch o.RateLimitBy {
	case "ip":
		p.caller = byAddress
	case "user":
		p.caller = byPrincipal
	default:
		p.caller = func(*route.Request) string { return "" }
	}
	return Parts{In: p}, nil
}

// byAddress identifies callers by their address; in IPv6 by the network that one customer gets,
// because otherwise each customer had any number of addresses.
func byAddress(r *route.Request) string {
	addr, err := netip.ParseAddr(r.Remote)
	if err != nil {
		return "ip "
	}
	addr = addr.Unmap().WithZone("")
	if addr.Is6() {
		return "ip " + netip.PrefixFrom(addr, 64).Masked().String()
	}
	return "ip " + addr.String()
}

// byPrincipal identifies callers by their principal, or by their address as long as the principal
// is not known.
func byPrincipal(r *route.Request) string {
	switch {
	case r.Principal == nil && r.Certificate != nil:
		return "cert " + r.Certificate.Subject
	case r.Principal == nil && r.Identity != nil && r.Identity.Subject != "":
		return "token " + r.Identity.Issuer + " " + r.Identity.Subject
	case r.Principal == nil:
		return byAddress(r)
	}
	return "user " + r.Principal.Account + " " + r.Principal.ID
}

// In counts the request.
func (p *rateLimit) In(_ context.Context, r *route.Request) (*route.Response, error) {
	wait := r.Runtime.RateLimits.Take(p.limit, p.caller(r))
	if wait == 0 {
		return nil, nil
	}
	refusal := problem.New(problem.RateLimited, "Too many requests.")
	if !p.silent {
		refusal.RetryAfter = wait
	}
	return nil, refusal
}
