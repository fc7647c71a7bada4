package site

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime"
	"runtime/debug"
	"strconv"
	"time"

	"waybill.dev/services/gateway/internal/route"
	"waybill.dev/services/gateway/internal/routefile"
	"waybill.dev/shared/apikey"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/problem"
)

// defaultTimeout is how long a call may take unless the route file sets a limit.
const defaultTimeout = 10 * time.Second

// Route is an operation with its handler. It implements route.Callable.
type Route struct {
	operation *routefile.Operation
	// early are the inbound policies that are asked before the body is read; inbound is the
	// rest.
	early, inbound []route.Inbound
	handler        route.Handler
	outbound       []route.Outbound
	needsWhole     bool // an outbound policy needs the body of the answer
	passesBody     bool // neither inbound nor the handler needs the whole body of the request
	instant        bool // there are no policies, and the handler does not wait: no deadline is needed
	uploaded       bool // headers with an effect beyond the deployment's host are removed from answers
	gates          []route.Gate
	takesTokens    []route.TakesTokens // policies of an MCP server that accept tokens
	changesWith    []string            // see route.Changing
	timeout        time.Duration
	// maxRequest and maxResponse are in bytes; maxResponse is 0 if answers may be longer.
	maxRequest, maxResponse int
	cors                    *cors    // nil: none
	notes                   []string // see Info.Notes
	place                   int      // among the routes of the site
}

// The problems without details. They are never changed.
var (
	errNoMethod   = problem.New(problem.MethodNotAllowed, "This resource does not know the method; see Allow.")
	errInternal   = problem.New(problem.Internal, "Something went wrong on our side.")
	errTimeout    = problem.New(problem.GatewayTimeout, "The route's handler took too long.")
	errLongAnswer = problem.New(problem.BadGateway, "The answer is longer than is allowed.")
	errStatus     = problem.New(problem.BadGateway, "The answer has a status that is not allowed.")
	errStream     = problem.New(problem.BadGateway, "The answer is a stream, which is not possible here.")
	errGone       = problem.New(problem.Unavailable, "The request was cancelled.")
)

// Permits reports whether the caller would get past every gate.
func (rt *Route) Permits(principal *apikey.Principal) bool {
	for _, gate := range rt.gates {
		if !gate.Permits(principal) {
			return false
		}
	}
	return true
}

// Call runs the policies and the handler, within the route's deadline, which is renewed when the
// body has been read. If the body is passed on, the handler enforces the limit, see route.Request.
// Outbound policies see every answer, but not errors, which are answered as they are.
func (rt *Route) Call(ctx context.Context, r *route.Request) *route.Response {
	started := time.Now()
	r.Streams = !r.Inside && !rt.needsWhole
	limited, cancel := rt.limit(ctx)
	defer cancel()
	at := routePart{kind: sourceGateway}
	response, err := recoverPanic(func() (*route.Response, error) {
		return ask(limited, rt.early, rt.operation.Inbound, r, &at)
	})
	if err == nil && response == nil && r.Unread != nil {
		at = routePart{kind: sourceGateway}
		err = r.Unread()
		r.Unread = nil
		if limited, r.Limit = ctx, rt.timeout; r.Source == nil {
			var end context.CancelFunc
			limited, end = rt.limit(ctx)
			defer end()
		}
	}
	if err == nil {
		response, err = recoverPanic(func() (*route.Response, error) { return rt.run(limited, r, response, &at) })
	}
	if err != nil {
		response = rt.failed(limited, r, err, at)
		rt.challenge(r, response)
	}
	r.Finished(response.Status, err != nil && at.handed && errors.Is(ctx.Err(), context.Canceled))
	took := time.Since(started)
	r.Runtime.Called(rt.place, r.Inside, response.Status, took)
	r.Record.Calls(r.Principal)
	r.Record.Shows(r.Certificate)
	if r.Inside && r.Record != nil {
		r.Record.Note(domain.SeverityOfStatus(response.Status), sourceMCP, "The operation "+rt.operation.ID+" has answered with "+strconv.Itoa(response.Status)+".",
			"durationMs", float64(took.Microseconds())/1000)
	}
	return response
}

// limit returns a context with the route's time limit, counted from now.
func (rt *Route) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	if rt.instant {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, rt.timeout)
}

// The sources of entries in the log of a request. A policy's source is the word policy and its
// name.
const (
	sourceGateway = "gateway"
	sourceHandler = "handler"
	sourceMCP     = "mcp"
	sourcePolicy  = "policy "
)

// routePart is the part of a route that is running. Handed: the handler has been given the request.
type routePart struct {
	kind, name string
	handed     bool
}

// source returns the name of the part in log entries.
func (p routePart) source() string { return p.kind + p.name }

// recoverPanic turns a panic into an error.
func recoverPanic(part func() (*route.Response, error)) (response *route.Response, err error) {
	defer func() {
		if value := recover(); value != nil {
			response, err = nil, caught(value)
		}
	}()
	return part()
}

// ask runs policies, which have the first of names, until one of them answers. It notes in at which
// policy is running.
func ask(ctx context.Context, policies []route.Inbound, names []string, r *route.Request, at *routePart) (*route.Response, error) {
	for i, policy := range policies {
		*at = routePart{kind: sourcePolicy, name: names[i]}
		response, err := policy.In(ctx, r)
		if err == nil && response == nil {
			continue
		}
		if err == nil && r.Record != nil {
			r.Record.Note(domain.SeverityOfStatus(response.Status), at.source(), "The policy has answered with "+strconv.Itoa(response.Status)+".")
		}
		return response, err
	}
	return nil, nil
}

// run does the steps after reading the body. If response is set, it is a policy's answer.
func (rt *Route) run(ctx context.Context, r *route.Request, response *route.Response, at *routePart) (_ *route.Response, err error) {
	if response == nil {
		if response, err = ask(ctx, rt.inbound, rt.operation.Inbound[len(rt.early):], r, at); err != nil {
			return nil, err
		}
	}
	if response == nil {
		*at = routePart{kind: sourceHandler, handed: true}
		if response, err = rt.handler.Handle(ctx, r); err != nil {
			return nil, err
		}
	}
	return rt.after(ctx, r, response, at)
}

// after runs the outbound policies, and checks whether the answer may be sent. A body that was to
// be passed on is closed when it is no longer part of the answer.
func (rt *Route) after(ctx context.Context, r *route.Request, response *route.Response, at *routePart) (_ *route.Response, err error) {
	if response != nil && response.Source != nil {
		source := response.Source
		passed := false
		defer func() {
			if !passed {
				_ = source.Close()
			}
		}()
		if response, err = rt.out(ctx, r, response, at); err != nil {
			return nil, err
		}
		passed = response.Source == source
		return response, nil
	}
	return rt.out(ctx, r, response, at)
}

func (rt *Route) out(ctx context.Context, r *route.Request, response *route.Response, at *routePart) (_ *route.Response, err error) {
	if response != nil && response.Header == nil { // from a program's handler or policy
		response.Header = make(http.Header)
	}
	for i, policy := range rt.outbound {
		at.kind, at.name = sourcePolicy, rt.operation.Outbound[i]
		if response, err = policy.Out(ctx, r, response); err != nil {
			return nil, err
		}
	}
	if len(rt.outbound) > 0 {
		at.kind, at.name = sourceGateway, ""
	}
	if response == nil {
		return nil, errors.New("neither answer nor error")
	}
	return response, rt.check(r, response)
}

// check checks whether an answer may be sent.
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

// failed returns the answer for err. Failures that no caller can fix are logged. at is the part of
// the route that has failed or has refused the request.
func (rt *Route) failed(ctx context.Context, r *route.Request, err error, at routePart) *route.Response {
	p := toProblem(ctx, err)
	noteFailure(r.Record, at, p, err)
	if p.Code == problem.Internal || p.Code == problem.BadGateway || p.Code == problem.GatewayTimeout {
		attrs := []any{"error", err, "file", rt.operation.File.Name, "operation", rt.operation.ID, "requestId", r.ID}
		if panicked, ok := errors.AsType[*panicError](err); ok {
			attrs = append(attrs, "stack", panicked.stack)
		}
		level := slog.LevelError
		if p.Code != problem.Internal {
			level = slog.LevelWarn // usually of a back end
		}
		r.Runtime.Logger.Log(ctx, level, "gateway route failed", attrs...)
	}
	return answerOf(p, r.Path, r.ID)
}

// noteFailure writes to the log of the request why its answer is a problem. The problem's detail
// may contain parts of the request, so it is not written.
func noteFailure(record *route.Record, at routePart, p *problem.Problem, err error) {
	if record == nil {
		return
	}
	message := "The request has failed with "
	if p.Status() < 500 {
		message = "The request was refused with "
	}
	note(record, at.source(), domain.SeverityOfStatus(p.Status()), message+strconv.Itoa(p.Status())+" "+string(p.Code)+".", err, "faults", len(p.Faults))
}

// note adds an entry for an error: the error's own entry, or message.
func note(record *route.Record, source string, severity domain.Severity, message string, err error, attributes ...any) {
	if told, ok := errors.AsType[route.Told](err); ok {
		message, attributes = told.Entry()
	} else if len(attributes) == 2 && attributes[1] == 0 {
		attributes = nil
	}
	record.Note(severity, source, message, attributes...)
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

// panicError is a panic of a handler or policy. Only a value of the runtime is shown: any other may
// hold a secret.
type panicError struct{ text, stack string }

func (p *panicError) Error() string { return "panic: " + p.text }

func caught(value any) error {
	p := &panicError{text: fmt.Sprintf("%T", value), stack: string(debug.Stack())}
	if err, ok := value.(runtime.Error); ok {
		p.text = err.Error()
	}
	return p
}
