package route

import (
	"context"

	"waybill.dev/shared/apikey"
)

// Use is how much of a meter one request uses.
type Use struct {
	Meter  string // slug of the meter
	Amount int64
}

// Dims are the dimensions, other than the status, by which metered requests are counted.
type Dims struct{ Deployment, Route, Method string }

// Meters hold callers to their plans.
type Meters interface {
	// Begin returns a function that the caller must call at the end of the request, with whether the request
	// counts and its status. The error is a *problem.Problem, for a request that is refused.
	Begin(ctx context.Context, who *apikey.Principal, use []Use, dims Dims) (end func(counts bool, status string), err error)
}

// Finally keeps f, which is called once with the status of the answer. left: the handler had the request, and the
// caller did not wait for the answer.
func (r *Request) Finally(f func(status int, left bool)) { r.ends = append(r.ends, f) }

// Finished calls the functions that Finally keeps.
func (r *Request) Finished(status int, left bool) {
	ends := r.ends
	r.ends = nil
	for _, end := range ends {
		end(status, left)
	}
}
