package policy

import (
	"context"
	"net/netip"
	"time"

	"waybill.dev/services/gateway/internal/ratelimit"
	"waybill.dev/services/gateway/internal/route"
	"waybill.dev/services/gateway/internal/routefile"
	"waybill.dev/shared/input"
	"waybill.dev/shared/problem"
)

// Bounds of rate limits.
const (
	maxAllowed       = 1_000_000_000
	minWindowMinutes = 1.0 / 600 // 100 ms
	maxWindowMinutes = 60 * 24 * 31
)

// rateLimitType is the type of the policy that limits rates.
const rateLimitType = "rate-limit-inbound"

// rateLimit refuses callers who ask too often.
type rateLimit struct {
	limit  ratelimit.Limit
	caller func(*route.Request) string
	silent bool // tells nobody when to come back
}

func newRateLimit(options *input.Form, def *routefile.PolicyDef, _ *Env) built {
	p := &rateLimit{}
	options.Require("rateLimitBy", "requestsAllowed", "timeWindowMinutes")
	by, given := options.Text("rateLimitBy", 0, 64)
	switch by {
	case "ip":
		p.caller = byAddress
	case "user":
		p.caller = byPrincipal
	case "all":
		p.caller = func(*route.Request) string { return "" }
	default:
		if given {
			options.Fault("must be ip, user or all", "rateLimitBy")
		}
	}
	allowed, _ := options.Integer("requestsAllowed", 1, maxAllowed)
	minutes, _ := options.Number("timeWindowMinutes", minWindowMinutes, maxWindowMinutes)
	mode, given := options.Text("headerMode", 0, 64)
	if given && mode != "retry-after" && mode != "none" {
		options.Fault("must be retry-after or none", "headerMode")
	}
	p.silent = mode == "none"
	p.limit = ratelimit.Limit{Policy: def.Name, Allowed: allowed, Window: time.Duration(minutes * float64(time.Minute))}
	return built{in: p}
}

// RateLimit returns the limit that a definition sets; false: it sets none. The count of it
// goes on as long as the definition is there, whether a route uses it at present or not.
func RateLimit(def *routefile.PolicyDef) (ratelimit.Limit, bool) {
	if def.Type != rateLimitType {
		return ratelimit.Limit{}, false
	}
	form, err := input.ParseForm(def.Options)
	if err != nil {
		return ratelimit.Limit{}, false
	}
	p, ok := newRateLimit(form, def, &Env{}).in.(*rateLimit)
	if !ok {
		return ratelimit.Limit{}, false
	}
	return p.limit, true
}

// byAddress tells callers apart by their address; in IPv6 by the network that one customer
// has, or everybody had as many addresses as they like.
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

// byPrincipal tells callers apart by who they are, and by their address as long as that
// is not known.
func byPrincipal(r *route.Request) string {
	if r.Principal == nil {
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
