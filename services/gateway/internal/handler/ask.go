package handler

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"waybill.dev/services/gateway/internal/route"
	"waybill.dev/services/gateway/internal/routefile"
	"waybill.dev/services/gateway/internal/upstream"
	"waybill.dev/shared/body"
	"waybill.dev/shared/egress"
	"waybill.dev/shared/input"
	"waybill.dev/shared/problem"
)

const (
	// callTimeout is the time limit of a call of a route that has no limit of its own.
	callTimeout = 10 * time.Second
	maxHops     = 5
	// maxURL is how long the URL of a request to a back end may be, in bytes.
	maxURL = 16 << 10
)

// backEnd is one that answers for a route.
type backEnd struct {
	to      upstream.BackEnd
	follow  bool          // follow redirects
	timeout time.Duration // 0: that of the call
}

// newBackEnd reads the options that forwards and rewrites have in common. base is nil when it is
// faulty.
func newBackEnd(options *input.Form, op *routefile.Operation, base *url.URL, env *Env) *backEnd {
	b := &backEnd{}
	if op.Method == http.MethodTrace {
		// The answer to TRACE is the request itself, with the key that policies have set.
		options.Fault("can't be used for TRACE")
	}
	b.follow, _ = options.Bool("followRedirects")
	seconds, _ := options.Number("timeoutSeconds", 0.001, 60)
	b.timeout = time.Duration(seconds * float64(time.Second))
	limit := cmp.Or(op.Timeout, callTimeout)
	if b.timeout > limit {
		options.Fault(fmt.Sprintf("must not be longer than the time limit of the call: %g seconds, unless the route's timeoutSeconds is larger",
			limit.Seconds()), "timeoutSeconds")
	}
	switch {
	case base == nil:
	case base.Scheme == upstream.ServiceScheme:
		b.to = env.Services.ToService(base)
	default:
		b.to = upstream.To(base)
	}
	return b
}

// Upstream returns the back end. The handler only uses its connections.
func (b *backEnd) Upstream() upstream.BackEnd { return b.to }

// NeedsBody reports whether the whole body is needed before the call: only if a redirect could ask
// for the body a second time.
func (b *backEnd) NeedsBody() bool { return b.follow }

// ask sends r to a URL and returns the answer: whole, or to be passed on as it arrives.
func (b *backEnd) ask(ctx context.Context, r *route.Request, to *url.URL) (*route.Response, error) {
	if len(to.String()) > maxURL {
		return nil, problem.New(problem.URITooLong, "The URL is longer than is passed on to a back end.")
	}
	// An answer that is passed on outlasts the call: the call's context ends the request to the
	// back end only until the answer begins.
	lasting, end := context.WithCancelCause(context.WithoutCancel(ctx))
	unlink := context.AfterFunc(ctx, func() { end(context.Cause(ctx)) })
	clock := startClock(b.timeLimit(ctx, r), func() { end(context.DeadlineExceeded) })
	started := time.Now()
	response, err := b.followRedirects(lasting, r, to, clock)
	clock.hold()
	asked := route.BackEndCall{Host: to.Host, Took: time.Since(started)}
	if err == nil {
		asked.Status = response.Status
	}
	r.Record.Asked(asked)
	inTime := unlink() && lasting.Err() == nil
	if err == nil && response.Source != nil {
		if p, ok := response.Source.(*passing); ok && inTime {
			p.end, p.clock = end, clock
			return response, nil
		}
		_ = response.Source.Close()
		response, err = nil, callerError(lasting, egress.AsError(lasting, context.Cause(lasting)))
	}
	end(context.Canceled)
	if err == nil {
		return response, nil
	}
	if r.Source != nil {
		if told := r.Source.Stop(); told != nil {
			return nil, told // without the body there was no answer to expect
		}
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		return nil, fmt.Errorf("ask the back end: %w", ctx.Err())
	}
	return nil, err
}

// timeLimit returns how long a call may wait for the back end.
func (b *backEnd) timeLimit(ctx context.Context, r *route.Request) time.Duration {
	limit := callTimeout
	if deadline, ok := ctx.Deadline(); ok {
		limit = time.Until(deadline)
	} else if r.Source != nil {
		limit = r.Limit
	}
	if b.timeout > 0 {
		limit = min(limit, b.timeout)
	}
	return limit
}

func (b *backEnd) followRedirects(ctx context.Context, r *route.Request, to *url.URL, clock *clock) (*route.Response, error) {
	request := newRequest(ctx, r.Method, to, requestHeader(r), r.Body)
	if r.Source != nil {
		request.Body, request.ContentLength = &sending{r.Source, clock}, r.Source.Size()
	}
	for range maxHops + 1 {
		answer, err := r.Runtime.Upstreams.RoundTrip(b.to, request)
		if err != nil {
			return nil, callerError(ctx, err)
		}
		next := b.redirected(request, answer, r)
		if next == nil {
			return routeAnswer(ctx, r, answer)
		}
		_ = answer.Body.Close()
		request = next
	}
	return nil, &backEndError{fmt.Sprintf("more than %d redirects", maxHops), "too_many_redirects", badGateway("The back end redirects too often.")}
}

func newRequest(ctx context.Context, method string, to *url.URL, header http.Header, content []byte) *http.Request {
	request := (&http.Request{
		Method: method, URL: to, Host: to.Host, Header: header,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}).WithContext(ctx)
	if len(content) > 0 {
		request.ContentLength = int64(len(content))
		request.Body = io.NopCloser(bytes.NewReader(content))
		// Only a request of which nothing was written is sent again, on another connection.
		request.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil }
	}
	return request
}

// redirected returns the request that a redirect asks for; nil: the answer itself is returned to the
// caller. A request with a body is sent to no other host than the first one.
func (b *backEnd) redirected(before *http.Request, answer *http.Response, r *route.Request) *http.Request {
	location := answer.Header.Get("Location")
	if !b.follow || location == "" {
		return nil
	}
	to, err := before.URL.Parse(location)
	if err != nil || to.Host == "" {
		return nil
	}
	to.Fragment, to.RawFragment = "", ""
	same := to.Scheme == before.URL.Scheme && to.Host == before.URL.Host
	method, content, header := before.Method, r.Body, before.Header.Clone()
	switch answer.StatusCode {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther:
		if method != http.MethodHead {
			method = http.MethodGet
		}
	case http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		if !same && method != http.MethodGet && method != http.MethodHead {
			return nil
		}
	default:
		return nil
	}
	if method == http.MethodGet || method == http.MethodHead {
		content = nil
		header.Del("Content-Type")
		header.Del("Content-Encoding")
	}
	if !same {
		header = forStrangers(header)
	}
	return newRequest(before.Context(), method, to, header, content)
}

// routeAnswer returns the route's answer, made from the back end's.
func routeAnswer(ctx context.Context, r *route.Request, answer *http.Response) (*route.Response, error) {
	if !isPassedOn(r, answer) {
		return readWhole(ctx, r, answer)
	}
	return &route.Response{
		Status: answer.StatusCode, Header: answerHeader(answer.Header), Size: answer.ContentLength,
		Source: &passing{body: answer.Body, ctx: ctx},
	}, nil
}

// readWhole reads an answer, which must not be longer than answers in memory may be. Its memory counts
// as memory of the request.
func readWhole(ctx context.Context, r *route.Request, answer *http.Response) (*route.Response, error) {
	defer answer.Body.Close()
	header := answerHeader(answer.Header)
	if r.Method == http.MethodHead {
		switch {
		case !r.Streams: // the answer made for GET may have another length
			if _, err := decodeContent(r.Lease, header, nil); err != nil {
				return nil, err
			}
		case answer.ContentLength >= 0:
			header.Set("Content-Length", strconv.FormatInt(answer.ContentLength, 10))
		}
		return &route.Response{Status: answer.StatusCode, Header: header}, nil
	}
	size := answer.ContentLength
	if size > route.MaxResponse {
		return nil, tooLong()
	}
	read, err := r.Lease.ReadAll(answer.Body, size, route.MaxResponse)
	if _, told := errors.AsType[*problem.Problem](err); told {
		return nil, err
	}
	switch {
	case errors.Is(err, body.ErrTooLarge):
		return nil, tooLong()
	case err != nil:
		return nil, callerError(ctx, egress.AsError(ctx, err))
	}
	if !r.Streams {
		if read, err = decodeContent(r.Lease, header, read); err != nil {
			return nil, err
		}
	}
	return &route.Response{Status: answer.StatusCode, Header: header, Body: read}, nil
}

func tooLong() error {
	return &backEndError{fmt.Sprintf("more than %d bytes", route.MaxResponse), "too_long", badGateway("The back end's answer is longer than is allowed.")}
}

func badGateway(detail string) *problem.Problem { return problem.New(problem.BadGateway, detail) }

// callerError turns an error into the one for the caller. Where and why it happened is for the log.
func callerError(ctx context.Context, err error) error {
	reason, code := "unknown", "unknown"
	told := badGateway("The back end can't be reached.")
	if e, ok := errors.AsType[*egress.Error](err); ok {
		reason, code = e.Reason(), string(e.Code)
		switch e.Code {
		case egress.CodeTimeout, egress.CodeConnectTimeout:
			told = problem.New(problem.GatewayTimeout, "The back end did not answer in time.")
		case egress.CodeBadStatus, egress.CodeBadResponse, egress.CodeHeaderTooLarge, egress.CodeClosed, egress.CodeReset:
			told = badGateway("The back end's answer can't be passed on.")
		}
	}
	if e, ok := errors.AsType[*upstream.ServiceError](err); ok {
		reason, code = e.Code, e.Code
	}
	if errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
		told = problem.New(problem.GatewayTimeout, "The back end did not answer in time.")
	}
	return &backEndError{reason, code, told}
}

// backEndError is a failure of a back end. Its texts contain nothing of the request.
type backEndError struct {
	reason  string // for operators of the gateway: it may contain addresses
	code    string // for the owner of the route
	problem *problem.Problem
}

func (e *backEndError) Error() string {
	return "ask the back end: " + e.reason + ": " + e.problem.Error()
}

func (e *backEndError) Unwrap() error { return e.problem }

// Entry implements route.Told.
func (e *backEndError) Entry() (message string, attributes []any) {
	return e.problem.Detail, []any{"reason", e.code}
}
