package selfapi

import (
	"context"
	"net/http"

	"waybill.dev/shared/apikey"
)

// Function is an operation that is called within the process.
type Function interface {
	// Handle answers a call. An error that is a *problem.Problem is the answer.
	Handle(ctx context.Context, r *Request) (*Response, error)
	// Permits reports, without a call, whether a caller would get past the scopes that the
	// function asks for. principal may be nil.
	Permits(principal *apikey.Principal) bool
}

// Request is one call of a function.
type Request struct {
	Query  string            // as it arrived, without its ?
	Params map[string]string // parameters of the path, decoded
	Header http.Header       // of the request that led to the call
	Body   []byte
	// Host and Scheme are those that the client used. Base is the beginning of links to paths of
	// ours; empty: links are paths only.
	Host, Scheme, Base string
	Remote             string // the client's address, without the port
	ID                 string // the X-Request-Id
	// Principal is the caller; nil: not known.
	Principal *apikey.Principal
	// Inside marks a call on behalf of an AI client, whose header belongs to another message.
	Inside bool
	// MaxAnswer is the maximum length of the answer, in bytes; 0: no limit.
	MaxAnswer int
}

// Response is the answer of a function.
type Response struct {
	Status int
	Header http.Header
	Body   []byte
}

// open is a Function without access control.
type open func(ctx context.Context, r *Request) (*Response, error)

// Handle implements Function.
func (f open) Handle(ctx context.Context, r *Request) (*Response, error) { return f(ctx, r) }

// Permits implements Function.
func (open) Permits(*apikey.Principal) bool { return true }
