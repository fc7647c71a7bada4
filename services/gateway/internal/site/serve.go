package site

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"time"

	"waybill.dev/services/gateway/internal/route"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/edge"
	"waybill.dev/shared/problem"
	"waybill.dev/shared/requestid"
)

// slack is the time that a connection may take in addition to the call itself, for example to send the
// answer.
const slack = 5 * time.Second

// Serve answers a request with the site alone.
func (s *Site) Serve(runtime *route.Runtime, w http.ResponseWriter, r *http.Request) {
	id := requestid.Of(r.Header)
	header := w.Header()
	header.Set(requestid.Header, id)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Cache-Control", "no-store")
	answer, _ := s.Match(runtime, r)
	answer(w, r, id)
}

// errNoPath is the answer when no route has the path.
var errNoPath = problem.New(problem.NotFound, "There is nothing at this path.")

// Match returns the function that answers the request, and the template that logs and metrics may use
// for its path; empty: no route has the path, and the answer says so. requestID is reported with the
// answer, whose header already has it.
func (s *Site) Match(runtime *route.Runtime, r *http.Request) (answer func(w http.ResponseWriter, r *http.Request, requestID string), template string) {
	f := s.find(r.Method, route.PathOf(r.URL))
	if f.template == "" {
		if of, path := s.resource(runtime, route.PathOf(r.URL)); of != nil {
			return func(w http.ResponseWriter, r *http.Request, requestID string) {
				of.describe(runtime, path, w, r, requestID)
			}, metadataPath
		}
	}
	return func(w http.ResponseWriter, r *http.Request, requestID string) { f.serve(runtime, w, r, requestID) }, f.template
}

// serve answers the request to which f was found.
func (f *match) serve(runtime *route.Runtime, w http.ResponseWriter, r *http.Request, requestID string) {
	seen := edge.Of(r)
	record := runtime.Begin(r, seen, requestID, f.template)
	defer runtime.End(record)
	if f.route == nil {
		f.refuse(w, r, requestID, record)
		return
	}
	request := newRequest(r, seen, f.params, requestID)
	request.Runtime, request.Record = runtime, record
	if len(f.route.takesTokens) > 0 {
		request.Tokens = runtime.Tokens
	}
	f.route.serve(w, r, request)
}

// refuse answers when no route has the path, or the path does not have the method. It also answers a
// browser's preflight.
func (f *match) refuse(w http.ResponseWriter, r *http.Request, requestID string, record *route.Record) {
	if wanted := r.Header.Get("Access-Control-Request-Method"); r.Method == http.MethodOptions && wanted != "" && r.Header.Get("Origin") != "" {
		if rt := f.byMethod(wanted); rt != nil && rt.cors != nil {
			rt.cors.preflight(w.Header(), r)
			record.Answered(http.StatusNoContent, 0)
			w.WriteHeader(http.StatusNoContent)
			return
		}
	}
	told := errNoPath
	if len(f.others) > 0 {
		told = errNoMethod
		w.Header().Set("Allow", f.allow())
	}
	response := answerOf(told, route.PathOf(r.URL), requestID)
	copyHeader(w.Header(), response.Header)
	write(w, r.Method, response, record)
}

// Refuse answers with a problem where there is no site to answer. Of the runtime, Ended is used: a
// request that no site has seen counts, too.
func Refuse(runtime *route.Runtime, w http.ResponseWriter, r *http.Request, requestID string, told *problem.Problem) {
	record := runtime.Begin(r, edge.Of(r), requestID, "")
	defer runtime.End(record)
	response := answerOf(told, route.PathOf(r.URL), requestID)
	copyHeader(w.Header(), response.Header)
	write(w, r.Method, response, record)
}

// answerOf returns a problem as an answer.
func answerOf(p *problem.Problem, path, requestID string) *route.Response {
	header := make(http.Header)
	p.SetHeader(header)
	return &route.Response{Status: p.Status(), Header: header, Body: p.JSON(path, requestID)}
}

func (rt *Route) serve(w http.ResponseWriter, r *http.Request, request *route.Request) {
	lease := request.Runtime.Memory.Lease()
	defer lease.Release()
	request.Lease = lease
	if r.ContentLength == 0 {
		rt.allowTime(w)
	} else {
		request.Unread = func() error { return rt.read(w, r, request) }
	}
	defer func() {
		if request.Source != nil {
			_ = request.Source.Stop()
		}
		request.Received()
	}()
	buffer, response := rt.buffer(r.Context(), request, rt.Call(r.Context(), request))
	if rt.uploaded {
		route.KeepUploaded(response.Header)
	}
	copyHeader(w.Header(), response.Header)
	rt.mark(w, r)
	endBody(w, request, response)
	if response.Stream != nil {
		stream := newStreamWriter(w, request.Record)
		stream.unread()
		response.Stream(r.Context(), stream)
		return
	}
	if response.Source != nil {
		rt.pass(w, r, request, response, buffer)
		return
	}
	write(w, r.Method, response, request.Record)
}

// wholeBody is up to which length a body is read before the handler is asked, in bytes. A
// back end then never waits for the client.
const wholeBody = 64 << 10

// read reads the body of a request, or prepares it to be passed on.
func (rt *Route) read(w http.ResponseWriter, r *http.Request, request *route.Request) (err error) {
	if rt.passesBody && (r.ContentLength < 0 || r.ContentLength > wholeBody) {
		request.Source, err = request.Lease.Stream(w, r, int64(rt.maxRequest), rt.timeout+slack)
		return err
	}
	request.Body, err = request.Lease.Read(w, r, int64(rt.maxRequest))
	rt.allowTime(w)
	return err
}

// endBody prepares the connection for an answer that begins before the request's body has
// come whole. The rest of the body may go on to the back end for as long as the answer is
// passed on, and is refused after that.
func endBody(w http.ResponseWriter, request *route.Request, response *route.Response) {
	if request.Source == nil || request.Source.Complete() {
		return
	}
	// Without that, the server would read the rest of the body itself.
	if response.Source == nil || http.NewResponseController(w).EnableFullDuplex() != nil {
		_ = request.Source.Stop()
	}
	w.Header().Set("Connection", "close")
}

// passBytes is the size of the buffer for an answer that is passed on.
const passBytes = 32 << 10

// buffer takes the memory to pass an answer on. Nothing is passed on if there is no memory, or if the
// status allows no body.
func (rt *Route) buffer(ctx context.Context, request *route.Request, response *route.Response) ([]byte, *route.Response) {
	if response.Source == nil {
		return nil, response
	}
	if bodiless(response.Status) {
		_ = response.Source.Close()
		return nil, &route.Response{Status: response.Status, Header: response.Header}
	}
	buffer, err := request.Lease.Buffer(passBytes)
	if err != nil {
		_ = response.Source.Close()
		return nil, rt.failed(ctx, request, err, routePart{kind: sourceGateway})
	}
	return buffer, response
}

// bodiless reports whether an answer with the status has no body.
func bodiless(status int) bool {
	return status == http.StatusNoContent || status == http.StatusNotModified
}

// pass passes an answer on as it arrives. If the answer breaks off, pass ends the connection, so that
// the client does not take the answer for complete.
func (rt *Route) pass(w http.ResponseWriter, r *http.Request, request *route.Request, response *route.Response, buffer []byte) {
	defer response.Source.Close()
	stop := context.AfterFunc(r.Context(), func() { _ = response.Source.Close() })
	defer stop()
	stream := newStreamWriter(w, request.Record)
	if request.Source == nil || request.Source.Complete() {
		stream.unread()
	}
	begin(w, response)
	request.Record.Answered(response.Status, 0)
	if response.Size < 0 {
		stream.Flush() // the first part may take long to arrive
	}
	for {
		n, err := response.Source.Read(buffer)
		if n > 0 {
			if _, err := stream.Write(buffer[:n]); err != nil {
				return // the client is gone
			}
			stream.Flush() // goes wrong with the next part, too
		}
		switch {
		case err == io.EOF:
			return
		case err != nil && r.Context().Err() != nil:
			// The client is gone, or did not send its body to the end.
			panic(http.ErrAbortHandler)
		case err != nil:
			note(request.Record, sourceHandler, domain.SeverityError, "The answer broke off.", err)
			request.Runtime.Logger.Warn("an answer broke off", "error", err, "file", rt.operation.File.Name, "operation", rt.operation.ID, "requestId", request.ID)
			panic(http.ErrAbortHandler)
		}
	}
}

// begin sends the head of an answer that is passed on.
func begin(w http.ResponseWriter, response *route.Response) {
	header := w.Header()
	if response.Size >= 0 {
		header.Set("Content-Length", strconv.FormatInt(response.Size, 10))
	}
	if header["Content-Type"] == nil {
		header.Set("Content-Type", "application/octet-stream") // clients must not guess the type
	}
	w.WriteHeader(response.Status)
}

// allowTime extends the time limit of the connection for a slow route. An error here comes back when
// the answer is written.
func (rt *Route) allowTime(w http.ResponseWriter) {
	if rt.timeout > defaultTimeout {
		control := http.NewResponseController(w)
		_ = control.SetReadDeadline(time.Time{})
		_ = control.SetWriteDeadline(time.Now().Add(rt.timeout + slack))
	}
}

// mark says whether pages of other origins may read the answer.
func (rt *Route) mark(w http.ResponseWriter, r *http.Request) {
	if rt.cors != nil {
		rt.cors.mark(w.Header(), r.Header.Get("Origin"))
	}
}

func newRequest(r *http.Request, seen edge.View, params map[string]string, requestID string) *route.Request {
	for name := range r.Header {
		if route.SaysCaller(name) {
			delete(r.Header, name)
		}
	}
	return &route.Request{
		Method: r.Method, Path: route.PathOf(r.URL), Query: route.ParseQuery(r.URL), Host: seen.Host, Scheme: seen.Scheme, Base: seen.Base,
		Header: r.Header, Params: params, Remote: seen.Address, ID: requestID, TLS: r.TLS,
	}
}

// copyHeader copies the header of an answer, without the headers of the connection and without the
// request's id, which the gateway sets.
func copyHeader(to, from http.Header) {
	for name, values := range from {
		switch {
		case name == "Vary":
			to[name] = append(to[name], values...)
		case name != "Content-Length" && name != requestid.Header && !route.OfConnection(name):
			to[name] = values
		}
	}
}

func write(w http.ResponseWriter, method string, response *route.Response, record *route.Record) {
	record.Answered(response.Status, 0)
	header := w.Header()
	if bodiless(response.Status) {
		w.WriteHeader(response.Status)
		return
	}
	if told := response.Header["Content-Length"]; len(response.Body) == 0 && method == http.MethodHead && told != nil {
		header["Content-Length"] = told
	} else if len(response.Body) > 0 || method != http.MethodHead { // the length of the answer to GET is not known
		header.Set("Content-Length", strconv.Itoa(len(response.Body)))
	}
	if len(response.Body) > 0 && header["Content-Type"] == nil {
		header.Set("Content-Type", "application/octet-stream") // clients must not guess the type
	}
	w.WriteHeader(response.Status)
	if method != http.MethodHead {
		written, _ := w.Write(response.Body)
		record.Answered(response.Status, written)
	}
}
