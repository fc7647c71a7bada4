package gateway

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"waybill.dev/services/api/internal/problem"
	"waybill.dev/services/api/internal/route"
)

// slack is what a connection may take beside the call itself: to send the answer, say.
const slack = 5 * time.Second

// ServeHTTP serves the routes alone, without anything of Waybill's own.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id := route.RequestID(r.Header)
	header := w.Header()
	header.Set(route.RequestIDHeader, id)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Cache-Control", "no-store")
	answer, _ := g.Match(r)
	if answer == nil {
		problem.Missing().Write(w, r, id)
		return
	}
	answer(w, r, id)
}

// Match returns what answers the request, and the template by which logs and metrics may
// name it; nil when no route has the path. It must be called, once. requestID is told with
// the answer, in whose header it is already.
func (g *Gateway) Match(r *http.Request) (answer func(w http.ResponseWriter, r *http.Request, requestID string), template string) {
	t := g.acquire()
	f, ok := t.find(r.Method, r.URL.EscapedPath())
	if !ok {
		g.release(t)
		return nil, ""
	}
	return func(w http.ResponseWriter, r *http.Request, requestID string) {
		defer g.release(t)
		f.serve(w, r, requestID)
	}, f.template
}

// serve answers the request to which f was found.
func (f *found) serve(w http.ResponseWriter, r *http.Request, requestID string) {
	if f.route == nil {
		f.refuse(w, r, requestID)
		return
	}
	f.route.serve(w, r, f.params, requestID)
}

// refuse answers a method that the path does not have, be it the question of a browser
// whether a page may send another one.
func (f *found) refuse(w http.ResponseWriter, r *http.Request, requestID string) {
	if wanted := r.Header.Get("Access-Control-Request-Method"); r.Method == http.MethodOptions && wanted != "" && r.Header.Get("Origin") != "" {
		if rt := f.byMethod(wanted); rt != nil && rt.cors != nil {
			rt.cors.preflight(w.Header(), r)
			w.WriteHeader(http.StatusNoContent)
			return
		}
	}
	w.Header().Set("Allow", f.allow())
	errNoMethod.Write(w, r, requestID)
}

func (rt *Route) serve(w http.ResponseWriter, r *http.Request, params map[string]string, requestID string) {
	body, err := rt.body(w, r)
	if err != nil {
		rt.mark(w, r)
		err.Write(w, r, requestID)
		return
	}
	if rt.timeout > defaultTimeout {
		// What goes wrong with this goes wrong with the answer, too.
		control := http.NewResponseController(w)
		_ = control.SetReadDeadline(time.Time{})
		_ = control.SetWriteDeadline(time.Now().Add(rt.timeout + slack))
	}
	response := rt.Call(r.Context(), newRequest(r, body, params, requestID))
	copyHeader(w.Header(), response.Header)
	rt.mark(w, r)
	if response.Stream != nil {
		response.Stream(r.Context(), newStreamWriter(w))
		return
	}
	write(w, r.Method, response)
}

// mark says whether pages of other origins may read the answer.
func (rt *Route) mark(w http.ResponseWriter, r *http.Request) {
	if rt.cors != nil {
		rt.cors.mark(w.Header(), r.Header.Get("Origin"))
	}
}

// body reads the request's body within the route's bound. It is nil when there is none.
func (rt *Route) body(w http.ResponseWriter, r *http.Request) ([]byte, *problem.Problem) {
	limit := int64(rt.maxRequest)
	switch {
	case r.ContentLength == 0:
		return nil, nil
	case r.ContentLength > limit:
		// Nothing of it is read; net/http then closes the connection.
		w.Header().Set("Connection", "close")
		return nil, errTooLarge
	}
	var buffer bytes.Buffer
	if r.ContentLength > 0 {
		buffer.Grow(int(r.ContentLength) + bytes.MinRead)
	}
	_, err := buffer.ReadFrom(http.MaxBytesReader(w, r.Body, limit))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, errTooLarge
	case errors.Is(err, io.ErrUnexpectedEOF):
		return nil, problem.Invalid(problem.Fault{Detail: "The body ended too early."})
	case err != nil:
		return nil, problem.Invalid(problem.Fault{Detail: "The body could not be read."})
	}
	return buffer.Bytes(), nil
}

func newRequest(r *http.Request, body []byte, params map[string]string, requestID string) *route.Request {
	for name := range r.Header {
		if route.SaysCaller(name) {
			delete(r.Header, name)
		}
	}
	remote, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		remote = r.RemoteAddr
	}
	query := make(url.Values)
	if r.URL.RawQuery != "" {
		query = r.URL.Query()
	}
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	return &route.Request{
		Method: r.Method, Path: r.URL.EscapedPath(), Query: query, Host: r.Host, Scheme: scheme,
		Header: r.Header, Body: body, Params: params, Remote: remote, ID: requestID,
	}
}

// copyHeader takes over what an answer says, but for what is the connection's, and for the
// request's id, which is ours to tell.
func copyHeader(to, from http.Header) {
	for name, values := range from {
		switch {
		case name == "Vary":
			to[name] = append(to[name], values...)
		case name != "Content-Length" && name != route.RequestIDHeader && !route.OfConnection(name):
			to[name] = values
		}
	}
}

func write(w http.ResponseWriter, method string, response *route.Response) {
	header := w.Header()
	if response.Status == http.StatusNoContent || response.Status == http.StatusNotModified {
		w.WriteHeader(response.Status)
		return
	}
	if len(response.Body) > 0 || method != http.MethodHead { // a back end's answer to HEAD has no body to count
		header.Set("Content-Length", strconv.Itoa(len(response.Body)))
	}
	if len(response.Body) > 0 && header["Content-Type"] == nil {
		header.Set("Content-Type", "application/octet-stream") // nobody is to guess
	}
	w.WriteHeader(response.Status)
	if method != http.MethodHead {
		_, _ = w.Write(response.Body)
	}
}
