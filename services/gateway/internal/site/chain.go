package site

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime"
	"runtime/debug"
	"time"

	"waybill.dev/services/gateway/internal/route"
	"waybill.dev/services/gateway/internal/routefile"
	"waybill.dev/shared/apikey"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/problem"
)

// defaultTimeout is how long a call may take where the route file does not say.
const defaultTimeout = 10 * time.Second

// Route is an operation with what answers it. It implements route.Callable.
type Route struct {
	operation *routefile.Operation
	// early are the inbound policies that are asked before the body is read; inbound is the
	// rest.
	early, inbound []route.Inbound
	handler        route.Handler
	outbound       []route.Outbound
	needsWhole     bool // one of outbound looks at the body of the answer
	passesBody     bool // neither inbound nor the handler needs the whole body of the request
	instant        bool // there are no policies, and the handler waits for nothing: no deadline
	gates          []route.Gate
	timeout        time.Duration
	// maxRequest and maxResponse are in bytes; the second is 0 for what may be longer.
	maxRequest, maxResponse int
	cors                    *cors // nil: none
	place                   int   // among the routes of the site
}

// The problems that have nothing to tell but their kind. They are never changed.
var (
	errNoMethod   = problem.New(problem.MethodNotAllowed, "This resource does not know the method; see Allow.")
	errInternal   = problem.New(problem.Internal, "Something went wrong on our side.")
	errTimeout    = problem.New(problem.GatewayTimeout, "The route's handler took too long.")
	errLongAnswer = problem.New(problem.BadGateway, "The answer is longer than is allowed.")
	errStatus     = problem.New(problem.BadGateway, "The answer has a status that is not allowed.")
	errStream     = problem.New(problem.BadGateway, "The answer is a stream, which is not possible here.")
	errGone       = problem.New(problem.Unavailable, "The request was cancelled.")
)

// Permits tells whether the caller would get past every gate.
func (rt *Route) Permits(principal *apikey.Principal) bool {
	for _, gate := range rt.gates {
		if !gate.Permits(principal) {
			return false
		}
	}
	return true
}

// Call runs the policies and the handler, within the route's deadline, which begins anew
// when the body has been read. To a body that is passed on the handler holds it, see
// route.Request. Outbound policies see every answer, but no error: that is told as it stands.
func (rt *Route) Call(ctx context.Context, r *route.Request) *route.Response {
	started := time.Now()
	r.Streams = !r.Inside && !rt.needsWhole
	limited, cancel := rt.limit(ctx)
	defer cancel()
	response, err := guarded(func() (*route.Response, error) { return ask(limited, rt.early, r) })
	if err == nil && response == nil && r.Unread != nil {
		err = r.Unread()
		r.Unread = nil
		if limited, r.Limit = ctx, rt.timeout; r.Source == nil {
			var end context.CancelFunc
			limited, end = rt.limit(ctx)
			defer end()
		}
	}
	if err == nil {
		response, err = guarded(func() (*route.Response, error) { return rt.run(limited, r, response) })
	}
	if err != nil {
		response = rt.failed(limited, r, err)
	}
	r.Runtime.Called(rt.place, r.Inside, response.Status, time.Since(started))
	return response
}

// limit gives a call the time of the route, from now on.
func (rt *Route) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	if rt.instant {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, rt.timeout)
}

// guarded makes an error of a panic.
func guarded(part func() (*route.Response, error)) (response *route.Response, err error) {
	defer func() {
		if value := recover(); value != nil {
			response, err = nil, caught(value)
		}
	}()
	return part()
}

// ask asks policies, until one of them answers.
func ask(ctx context.Context, policies []route.Inbound, r *route.Request) (*route.Response, error) {
	for _, policy := range policies {
		if response, err := policy.In(ctx, r); err != nil || response != nil {
			return response, err
		}
	}
	return nil, nil
}

// run does what comes after the reading of the body. A response that is there already is
// a policy's answer.
func (rt *Route) run(ctx context.Context, r *route.Request, response *route.Response) (_ *route.Response, err error) {
	if response == nil {
		if response, err = ask(ctx, rt.inbound, r); err != nil {
			return nil, err
		}
	}
	if response == nil {
		if response, err = rt.handler.Handle(ctx, r); err != nil {
			return nil, err
		}
	}
	return rt.after(ctx, r, response)
}

// after asks the outbound policies, and holds the answer to what may be sent. What was to be
// passed on is let go of when it is not the answer any more.
func (rt *Route) after(ctx context.Context, r *route.Request, response *route.Response) (_ *route.Response, err error) {
	if response != nil && response.Source != nil {
		source := response.Source
		passed := false
		defer func() {
			if !passed {
				_ = source.Close()
			}
		}()
		if response, err = rt.out(ctx, r, response); err != nil {
			return nil, err
		}
		passed = response.Source == source
		return response, nil
	}
	return rt.out(ctx, r, response)
}

func (rt *Route) out(ctx context.Context, r *route.Request, response *route.Response) (_ *route.Response, err error) {
	if response != nil && response.Header == nil { // of a program's handler or policy
		response.Header = make(http.Header)
	}
	for _, policy := range rt.outbound {
		if response, err = policy.Out(ctx, r, response); err != nil {
			return nil, err
		}
	}
	if response == nil {
		return nil, errors.New("neither answer nor error")
	}
	return response, rt.check(r, response)
}

// check holds an answer to what may be sent.
func (rt *Route) check(r *route.Request, response *route.Response) error {
	if response.Header == nil {
		response.Header = make(http.Header)
	}
	switch {
	case response.Stream != nil && r.Inside:
		return errStream
	case response.Stream != nil:
		return nil
	case response.Status < 200 || response.Status > 599:
		return errStatus
	case rt.maxResponse > 0 && len(response.Body) > rt.maxResponse:
		return errLongAnswer
	}
	return nil
}

// failed returns the answer that err stands for. What no caller can do anything about is
// logged.
func (rt *Route) failed(ctx context.Context, r *route.Request, err error) *route.Response {
	p := toProblem(ctx, err)
	if p.Code == problem.Internal || p.Code == problem.BadGateway || p.Code == problem.GatewayTimeout {
		attrs := []any{"error", err, "file", rt.operation.File.Name, "operation", rt.operation.ID, "requestId", r.ID}
		if panicked, ok := errors.AsType[*panicError](err); ok {
			attrs = append(attrs, "stack", panicked.stack)
		}
		level := slog.LevelError
		if p.Code != problem.Internal {
			level = slog.LevelWarn // of a back end, most often
		}
		r.Runtime.Logger.Log(ctx, level, "gateway route failed", attrs...)
	}
	header := make(http.Header)
	p.SetHeader(header)
	return &route.Response{Status: p.Status(), Header: header, Body: p.JSON(r.Path, r.ID)}
}

func toProblem(ctx context.Context, err error) *problem.Problem {
	var p *problem.Problem
	switch {
	case errors.As(err, &p):
		return p
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return errTimeout
	case ctx.Err() != nil:
		return errGone
	case errors.Is(err, context.DeadlineExceeded):
		return errTimeout
	case errors.Is(err, apikey.ErrUnauthenticated):
		return problem.KeyRequired()
	case errors.Is(err, domain.ErrUnavailable):
		unavailable := problem.New(problem.Unavailable, "Something that this request needs can't be reached now. Try again.")
		unavailable.RetryAfter = 2 * time.Second
		return unavailable
	}
	return errInternal
}

// panicError is what a handler or policy has panicked with. The value is told only when
// the runtime made it: any other may hold a secret.
type panicError struct{ text, stack string }

func (p *panicError) Error() string { return "panic: " + p.text }

func caught(value any) error {
	p := &panicError{text: fmt.Sprintf("%T", value), stack: string(debug.Stack())}
	if err, ok := value.(runtime.Error); ok {
		p.text = err.Error()
	}
	return p
}
