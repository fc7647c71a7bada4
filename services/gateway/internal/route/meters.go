package route

import (
	"context"

	"waybill.dev/shared/apikey"
)

// Use is how much of a meter one request uses.
type Use struct {
	Meter  string // its slug
	Amount int64
}

// Dims are what metered requests are told apart by, besides their status.
type Dims struct{ Deployment, Route, Method string }

// Meters hold callers to their plans.
type Meters interface {
	// Begin returns what must be called with the end of the request: whether it counts, and with
	// which status. The error is a *problem.Problem, for a request that is not to pass.
	Begin(ctx context.Context, who *apikey.Principal, use []Use, dims Dims) (end func(counts bool, status string), err error)
}

// Finally has f called with the status of the answer, once. Left: the handler had the request,
// and the caller did not wait for what it would answer.
func (r *Request) Finally(f func(status int, left bool)) { r.ends = append(r.ends, f) }

// Finished calls what Finally was given.
func (r *Request) Finished(status int, left bool) {
	ends := r.ends
	r.ends = nil
	for _, end := range ends {
		end(status, left)
	}
}
