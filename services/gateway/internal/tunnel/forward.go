package tunnel

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"

	"waybill.dev/services/gateway/internal/upstream"
	"waybill.dev/shared/egress"
	"waybill.dev/shared/tunnel"
)

// RoundTrip implements upstream.Services.
func (t *Tunnels) RoundTrip(to upstream.Service, r *http.Request) (*http.Response, error) {
	t.mu.RLock()
	s, ok := t.services[serviceKey{to.Account, to.Name}]
	t.mu.RUnlock()
	code := ""
	switch {
	case !ok:
		code = upstream.ServiceUnknown
	case !s.service.Allows(to.Project, to.Environment):
		code = upstream.ServiceDenied
	case r.ContentLength > tunnel.MaxBody:
		code = upstream.ServiceFailed
	}
	if code != "" {
		t.metrics.requests.WithLabelValues(wayNone).Inc()
		closeBody(r.Body)
		return nil, &upstream.ServiceError{Code: code}
	}
	return t.forward(s.tunnel, to.Name, r)
}

// forward sends a request over a connection of this gateway. If there is none, another gateway sends it. A request
// is sent a second time, over another connection, if nothing of it was sent or if it may be repeated.
func (t *Tunnels) forward(id, name string, r *http.Request) (*http.Response, error) {
	body := &once{ReadCloser: r.Body}
	if r.Body != nil && r.Body != http.NoBody {
		r = r.WithContext(r.Context())
		r.Body = body
	}
	var tried *connection
	var failed error
	for try := range 2 {
		c := t.pick(id, tried)
		if c == nil {
			break
		}
		answer, sent, err := c.ask(r, name)
		if err == nil {
			t.metrics.requests.WithLabelValues(wayOwn).Inc()
			return answer, nil
		}
		if r.Context().Err() != nil || sent && !repeatable(r) || body.read.Load() || try > 0 {
			_ = body.close()
			return nil, failure(r.Context(), err)
		}
		tried, failed = c, err
	}
	answer, err := t.askOtherGateway(id, name, r)
	_ = body.close()
	if e, ok := errors.AsType[*upstream.ServiceError](err); ok && failed != nil && e.Code == upstream.ServiceDown {
		return nil, failure(r.Context(), failed)
	}
	return answer, err
}

// pick reserves a place on the connection with the fewest requests, except tried, and returns the connection. It
// returns nil if there is no place.
func (t *Tunnels) pick(id string, tried *connection) *connection {
	t.mu.RLock()
	defer t.mu.RUnlock()
	one := t.byID[id]
	if one == nil {
		return nil
	}
	var best *connection
	for _, c := range one.connections {
		if c != tried && !c.leaving.Load() && (best == nil || c.running.Load() < best.running.Load()) {
			best = c
		}
	}
	if best == nil || best.client.Reserve() != nil {
		return nil
	}
	best.running.Add(1)
	return best
}

// ask sends a request over a connection from pick. If sent is true, the agent may have seen the request.
func (c *connection) ask(r *http.Request, name string) (answer *http.Response, sent bool, err error) {
	var wrote atomic.Bool
	ctx := httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{WroteHeaders: func() { wrote.Store(true) }})
	answer, err = c.client.RoundTrip(toAgent(ctx, r, name))
	if err != nil {
		c.running.Add(-1)
		return nil, wrote.Load(), err //nolint:wrapcheck // failure wraps it
	}
	answer.Body = &boundedBody{ReadCloser: answer.Body, remaining: tunnel.MaxBody, end: sync.OnceFunc(func() { c.running.Add(-1) })}
	code := ""
	switch said := answer.Header.Get(tunnel.ErrorHeader); {
	case said == tunnel.CodeUnreachable:
		code = upstream.ServiceUnreachable
	case said == tunnel.CodeUnknown:
		code = upstream.ServiceUnknown
	case said != "" || answer.ContentLength > tunnel.MaxBody && r.Method != http.MethodHead || answer.StatusCode < 200 || answer.StatusCode > 599:
		code = upstream.ServiceFailed
	}
	if code != "" {
		_ = answer.Body.Close()
		return nil, true, &upstream.ServiceError{Code: code}
	}
	return answer, true, nil
}

// repeatable reports whether a request may be sent twice.
func repeatable(r *http.Request) bool {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodPut, http.MethodDelete:
		return true
	}
	return false
}

// failure turns an error of a tunnel into one that the handlers of back ends know.
func failure(ctx context.Context, err error) error {
	if e, ok := errors.AsType[*upstream.ServiceError](err); ok {
		return e
	}
	if ctx.Err() != nil {
		return egress.AsError(ctx, err)
	}
	return &upstream.ServiceError{Code: upstream.ServiceFailed}
}

var errTooLong = errors.New("the answer of a service is longer than is allowed")

// boundedBody is the body of an answer. Reading fails if the body is longer than allowed.
type boundedBody struct {
	io.ReadCloser

	remaining int64
	end       func()
}

// Read implements io.Reader.
func (b *boundedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.remaining -= int64(n); b.remaining < 0 {
		return 0, errTooLong
	}
	return n, err //nolint:wrapcheck // a reader's errors pass as they are
}

// Close implements io.Closer.
func (b *boundedBody) Close() error {
	err := b.ReadCloser.Close()
	b.end()
	return err //nolint:wrapcheck // as it is
}

// once is the body of a request. A transport that fails before it has read any of the body does not close it.
type once struct {
	io.ReadCloser

	read atomic.Bool
}

// Read implements io.Reader.
func (o *once) Read(p []byte) (int, error) {
	o.read.Store(true)
	return o.ReadCloser.Read(p) //nolint:wrapcheck // a reader's errors pass as they are
}

// Close closes a body of which something was read. Otherwise the request may be sent again.
func (o *once) Close() error {
	if !o.read.Load() {
		return nil
	}
	return o.close()
}

func (o *once) close() error {
	if o.ReadCloser == nil {
		return nil
	}
	return o.ReadCloser.Close() //nolint:wrapcheck // as it is
}

func closeBody(body io.Closer) {
	if body != nil {
		_ = body.Close()
	}
}
