// Package route defines the parts of gateway routes: requests and responses, handlers, and the policies before and
// after them. Bodies are whole in memory, unless they are passed to or from a back end. A route is called by HTTP
// or, inside the process, by an MCP server; both run the same steps.
package route

import (
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"time"

	"waybill.dev/shared/apikey"
	"waybill.dev/shared/body"
)

// Bounds of requests and responses of a route, in bytes. A longer response is not cut: it is an error (502),
// because half an answer must not look like a whole one. A response that is passed on as it arrives may be longer.
const (
	MaxRequest    = 1 << 20
	MaxMCPRequest = 4 << 20
	MaxResponse   = 1 << 20
)

// Request is one call of a route. Handlers and policies may change Header, Query and Body; they must not change the
// Principal itself. Policies that need no body, see NeedsBody, get requests without a Body.
type Request struct {
	Method string
	// Path is the escaped path that was called; for a call from inside the one that the
	// arguments make.
	Path  string
	Query Query
	// Host and Scheme are those that the client used. Base is the beginning of links to paths of ours; empty: links
	// are paths only.
	Host, Scheme, Base string
	// Header is the caller's header. A call from inside has the original request's header, without the headers of
	// its transport (content type and length, accept, MCP's own).
	Header http.Header
	// Outgoing has the headers that policies have set, which are also in Header. A back end gets these even if a
	// header of that name is never passed on from a caller, such as Authorization. In a call from inside, it is
	// empty at first.
	Outgoing http.Header
	Body     []byte
	// Source, when not nil, is the body instead of Body, to be passed on as it arrives. Only handlers that don't
	// need the body, see NeedsBody, get a Source. It can be read once.
	Source *body.Stream
	// Limit is how long a call with a Source may take, not counting the time in which the gateway waits for the
	// client. The handler enforces it; the context has no such limit.
	Limit time.Duration
	// Unread reads the body, or makes it the Source; nil: that has been done. Reading does not count for the
	// route's time limit. The gateway calls it once.
	Unread func() error
	// Runtime is the runtime of the site. A call from inside keeps it.
	Runtime *Runtime
	// Record is the record of the request for the log; nil: the request is not recorded. A call from inside keeps
	// it.
	Record *Record
	// Lease is the memory that the request may hold; nil: memory is not counted.
	Lease *body.Lease
	// Params are the path's parameters, decoded.
	Params map[string]string
	// Remote is the client's address, without the port, also in calls from inside. Empty: it
	// is not known.
	Remote string
	// ID is the X-Request-Id.
	ID string
	// Principal is the caller; nil until a policy has authenticated the caller. A call from inside keeps it.
	Principal *apikey.Principal
	// Admitter is the policy that has authenticated the caller, for answers that last long; nil: none has.
	Admitter Admitter
	// TLS is the connection of the request, also in calls from inside; nil: the gateway does not end TLS for it.
	TLS *tls.ConnectionState
	// Certificate is the client's certificate; nil until a policy has accepted it. A call from inside keeps it.
	Certificate *Certificate
	// Identity is the user that an access token of an issuer names; nil until a policy has accepted the token. A
	// call from inside keeps it.
	Identity *Identity
	// Tokens checks access tokens, which are accepted in addition to keys; nil: only keys are accepted.
	Tokens Tokens
	// Inside marks a call that an MCP server makes.
	Inside bool
	// Streams says that no later step needs the whole answer: the handler may pass it on as it arrives.
	Streams bool
	// Progress reports the progress of the work to the caller; nil: the caller did not ask for it. total 0 means
	// unknown.
	Progress func(done, total float64, message string)

	ends []func(status int, left bool) // see Finally
}

// Response is the answer of a route.
type Response struct {
	Status int
	// Header is never nil. Its Content-Length is used only in an answer to HEAD without a Body, as the length of
	// the answer to GET.
	Header http.Header
	Body   []byte
	// Source, when not nil, is the body instead of Body. It is passed on as it arrives: the owner of the response
	// reads it to its end, or closes it. Any error except io.EOF means that the answer breaks off. Only handlers
	// whose request has Streams set may use it.
	Source io.ReadCloser
	// Size is the length of Source in bytes; below 0: unknown.
	Size int64
	// Stream, when not nil, writes the answer instead of all the above: the answer may go
	// on for as long as the client listens. Header's values are already in w's header. ctx
	// is the client's request: it ends with the connection, and not at a route's deadline.
	Stream func(ctx context.Context, w http.ResponseWriter)
}

// Handler answers calls. An error that is a *problem.Problem is the answer; the deadline of a context is answered
// with 504, any other error with 500, and its text goes only to the log.
type Handler interface {
	Handle(ctx context.Context, r *Request) (*Response, error)
}

// Told is an error with an entry for the log of the request.
type Told interface {
	error
	// Entry returns arguments for Record.Note.
	Entry() (message string, attributes []any)
}

// Inbound is a policy before the handler. A response that is not nil is the answer: the later inbound policies and
// the handler do not run.
type Inbound interface {
	In(ctx context.Context, r *Request) (*Response, error)
}

// NeedsBody reports whether a policy or a handler needs the whole body, of the request or of the answer. It does,
// unless it has a method NeedsBody that returns false. Policies before the handler that need no body run before the
// body is read, until the first policy that needs it. If the policies after the handler need no body, an answer may
// be passed on as it arrives. A handler that needs no body may get a Source.
func NeedsBody(part any) bool {
	p, ok := part.(interface{ NeedsBody() bool })
	return !ok || p.NeedsBody()
}

// Outbound is a policy after the handler. It may change the response or return another.
type Outbound interface {
	Out(ctx context.Context, r *Request, response *Response) (*Response, error)
}

// Gate is a policy or handler that can tell, without a call, whether a caller would get past it. Lists leave out
// routes that the caller would not get past. principal may be nil.
type Gate interface {
	Permits(principal *apikey.Principal) bool
}

// Callable is a route that is ready to be called. *site.Route implements it.
type Callable interface {
	// Call runs the inbound policies, the handler and the outbound policies, within the route's deadline. A failure
	// is returned as a response with a problem as its body.
	Call(ctx context.Context, r *Request) *Response
	// Permits reports whether the caller would get past every gate of the route.
	Permits(principal *apikey.Principal) bool
}
