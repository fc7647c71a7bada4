// Package route is what gateway routes are made of: a request and a response, the handlers
// that answer, and the policies before and after them. Bodies are whole in memory, unless
// they pass to or from a back end. A route is called by HTTP or, inside the process, by an
// MCP server; both take the same way.
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

// Bounds of what a route takes and gives, in bytes. A response that is longer is not cut:
// it is an error (502), for half an answer must not look like a whole one. One that is passed
// on as it comes may be longer.
const (
	MaxRequest    = 1 << 20
	MaxMCPRequest = 4 << 20
	MaxResponse   = 1 << 20
)

// Request is one call of a route. Handlers and policies may change Header, Query and Body;
// they must not change what Principal points to. Policies that need no body, see NeedsBody,
// get requests whose Body is not there yet.
type Request struct {
	Method string
	// Path is the escaped path that was called; for a call from inside the one that the
	// arguments make.
	Path  string
	Query Query
	// Host and Scheme are those that the client used. Base is what links to paths of ours
	// begin with; empty: they are paths alone.
	Host, Scheme, Base string
	// Header is the caller's. A call from inside has the original request's, without those
	// of its transport (content type and length, accept, MCP's own).
	Header http.Header
	// Outgoing has the headers that policies have set, which are in Header too. A back end
	// gets these even if their names are of those that are never passed on from a caller,
	// such as Authorization. A call from inside begins without any.
	Outgoing http.Header
	Body     []byte
	// Source, when not nil, is the body instead of Body, to be passed on as it comes. Only
	// handlers that don't need the body, see NeedsBody, get it. It can be read once.
	Source *body.Stream
	// Limit is how long a call with a Source may take, beside the time in which its client is
	// waited for. The handler holds to it; the context knows no such limit.
	Limit time.Duration
	// Unread reads the body, which is not a part of the time that the route has, or makes it
	// the Source; nil: that is done. The gateway calls it, once.
	Unread func() error
	// Runtime is what the site is served with. A call from inside keeps it.
	Runtime *Runtime
	// Record is what is told of the request in the log; nil: nothing is. A call from inside
	// keeps it.
	Record *Record
	// Lease is what the request may hold in memory; nil: that is not counted.
	Lease *body.Lease
	// Params are the path's parameters, decoded.
	Params map[string]string
	// Remote is the client's address, without the port, also in calls from inside. Empty: it
	// is not known.
	Remote string
	// ID is what X-Request-Id says.
	ID string
	// Principal is the caller; nil until a policy has found out. A call from inside keeps it.
	Principal *apikey.Principal
	// Admitter is the policy that has found out who calls, for answers that go on for long; nil: none has.
	Admitter Admitter
	// TLS is the connection that the request came over, also in calls from inside; nil: it has
	// no TLS of ours.
	TLS *tls.ConnectionState
	// Certificate is the client's; nil until a policy has found it good. A call from inside
	// keeps it.
	Certificate *Certificate
	// Identity is whom an access token of an issuer names; nil until a policy has found the token good. A call from
	// inside keeps it.
	Identity *Identity
	// Tokens tells whose access tokens are taken besides keys; nil: nobody's.
	Tokens Tokens
	// Inside marks a call that an MCP server makes.
	Inside bool
	// Streams tells a handler that nothing after it needs the whole answer, which may be
	// passed on as it comes.
	Streams bool
	// Progress tells the caller how far the work is, where the caller asked for that; otherwise
	// it is nil. total 0 means unknown.
	Progress func(done, total float64, message string)

	ends []func(status int, left bool) // see Finally
}

// Response is the answer of a route.
type Response struct {
	Status int
	// Header is never nil. Its Content-Length counts in an answer to HEAD without a Body, where
	// it is that of the answer to GET.
	Header http.Header
	Body   []byte
	// Source, when not nil, is the body instead of Body. It is passed on as it comes: whoever
	// has the response reads it to its end, or closes it. Any error of it but io.EOF means
	// that the answer breaks off. Only what Request.Streams was said to may answer with it.
	Source io.ReadCloser
	// Size is how many bytes Source has; below 0: that is not known.
	Size int64
	// Stream, when not nil, writes the answer instead of all the above: the answer may go
	// on for as long as the client listens. Header's values are already in w's header. ctx
	// is the client's request: it ends with the connection, and not at a route's deadline.
	Stream func(ctx context.Context, w http.ResponseWriter)
}

// Handler answers calls. An error that is a *problem.Problem is told as it stands, a
// context's deadline is 504, any other one 500, and its text stays in the log.
type Handler interface {
	Handle(ctx context.Context, r *Request) (*Response, error)
}

// Told is an error that says what the log of the request is told of it.
type Told interface {
	error
	// Entry returns what Record.Note takes.
	Entry() (message string, attributes []any)
}

// Inbound is a policy before the handler. A response that is not nil is the answer: what
// follows inbound and the handler are left out.
type Inbound interface {
	In(ctx context.Context, r *Request) (*Response, error)
}

// NeedsBody reports whether a policy or a handler needs the whole body, of the request or of
// the answer. Those that don't say so by having a method NeedsBody that returns false.
// Policies before the handler are then asked before the body is read, as long as no policy
// before them needs it; after it they let an answer be passed on as it comes. A handler may
// then get a Source.
func NeedsBody(part any) bool {
	p, ok := part.(interface{ NeedsBody() bool })
	return !ok || p.NeedsBody()
}

// Outbound is a policy after the handler. It may change the response or return another.
type Outbound interface {
	Out(ctx context.Context, r *Request, response *Response) (*Response, error)
}

// Gate is a policy or handler that can tell, without a call, whether a caller would get
// past it. What a caller would not get past is not listed. principal may be nil.
type Gate interface {
	Permits(principal *apikey.Principal) bool
}

// Callable is a route that is ready to be called. *site.Route implements it.
type Callable interface {
	// Call runs the inbound policies, the handler and the outbound policies, within the
	// route's deadline. What goes wrong is a response with a problem as its body.
	Call(ctx context.Context, r *Request) *Response
	// Permits reports whether the caller would get past every gate of the route.
	Permits(principal *apikey.Principal) bool
}
