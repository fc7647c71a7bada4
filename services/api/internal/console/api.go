package console

import (
	"bytes"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/go-json-experiment/json"

	"waybill.dev/services/api/internal/kernel/auth"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/edge"
	"waybill.dev/shared/requestid"
)

// API calls the API in process, as the session's principal. Pages have no other access to the data: the API
// enforces rights, validation, limits and the separation of accounts, and writes the audit log.
type API struct {
	page *Page
	once string // the Idempotency-Key of the call; empty: none
}

// Call is one call that a page has made.
type Call struct {
	Method, Path, Query string
	Body                []byte
	Status              int
	Header              http.Header // header of the answer
	// Tried says that the page works without the answer if it is a problem.
	Tried     bool
	Operation Operation // zero: the API has no such operation
}

// Problem is a problem of the API; see RFC 9457.
type Problem struct {
	Type      string  `json:"type"`
	Title     string  `json:"title"`
	Status    int     `json:"status"`
	Detail    string  `json:"detail"`
	Code      string  `json:"code"`
	RequestID string  `json:"requestId"`
	Faults    []Fault `json:"errors"`
	// Scope is the scope that the operation requires.
	Scope domain.Scope `json:"-"`
	// RetryAfter is the value of the header; empty: there was none.
	RetryAfter string `json:"-"`
	// NoOperation says that the API does not have the operation at all.
	NoOperation bool `json:"-"`
}

// Told returns the detail for people, who see the faults beside their fields.
func (p *Problem) Told() string {
	if told, found := strings.CutSuffix(p.Detail, "; see errors."); found {
		return told + "."
	}
	return p.Detail
}

// Fault is one fault of the data that was sent.
type Fault struct {
	Pointer   string `json:"pointer"`
	Parameter string `json:"parameter"`
	Header    string `json:"header"`
	Detail    string `json:"detail"`
}

// Error implements error.
func (p *Problem) Error() string { return p.Code + ": " + p.Detail }

// Get reads a resource into the value that into points to. The error is the API's *Problem; a handler returns
// it, and the page of the problem is shown.
func (a *API) Get(path string, query url.Values, into any) error {
	return a.do(http.MethodGet, path, query, content{}, into)
}

// Try is Get for an optional part of a page. It returns the problem to be shown in place of the part (template
// "unavailable"), or nil.
func (a *API) Try(path string, query url.Values, into any) *Problem {
	err := a.Get(path, query, into)
	a.page.calls[len(a.page.calls)-1].Tried = true
	if err == nil {
		return nil
	}
	if p, ok := err.(*Problem); ok { //nolint:errorlint // do returns it bare
		return p
	}
	a.page.console.Logger.Error("a part of a page could not be read", "error", err, "route", a.page.route.Path, "requestId", a.page.RequestID)
	return &Problem{Title: "Internal error", Status: http.StatusInternalServerError, Code: "INTERNAL", Detail: "The answer could not be read.", RequestID: a.page.RequestID}
}

// Send calls an operation that changes something, with a body that is encoded as JSON; nil: none. The answer
// is decoded into the value that into points to; nil: the answer is ignored.
func (a *API) Send(method, path string, body, into any) error {
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body, json.Deterministic(true)); err != nil {
			return fmt.Errorf("write body of %s %s: %w", method, path, err)
		}
	}
	return a.do(method, path, nil, content{kind: "application/json", bytes: text}, into)
}

// SendFile sends the bytes of a file with POST. kind is their media type.
func (a *API) SendFile(path string, query url.Values, kind string, file []byte, into any) error {
	return a.do(http.MethodPost, path, query, content{kind, file}, into)
}

// content is the body of a call.
type content struct {
	kind  string // the media type
	bytes []byte
}

// Delete deletes the resource of a path and query.
func (a *API) Delete(path string, query url.Values) error {
	return a.do(http.MethodDelete, path, query, content{}, nil)
}

// SendOnce is Send for a form with a key of its own: if the form is sent twice, for example because a page is
// reloaded, the second call changes nothing and gets the first answer again. See NewKey.
func (a *API) SendOnce(path, key string, body, into any) error {
	a.once = key
	defer func() { a.once = "" }()
	return a.Send(http.MethodPost, path, body, into)
}

// NewKey returns a new key for SendOnce.
func NewKey() string { return random() }

// Last returns the call that was made last, with the header of its answer: X-Total-Count, Location.
func (a *API) Last() Call { return a.page.calls[len(a.page.calls)-1] }

func (a *API) do(method, path string, query url.Values, body content, into any) error {
	operation := a.page.console.operation(method, path)
	if operation.ID == "" {
		// Nothing beyond the API's own operations is asked: a gateway route may have the path.
		a.page.calls = append(a.page.calls, Call{Method: method, Path: path, Query: query.Encode(), Body: body.bytes, Status: http.StatusNotFound})
		return &Problem{Title: "Not found", Status: http.StatusNotFound, Code: "NOT_FOUND", Detail: "There is nothing at this path.", RequestID: a.page.RequestID, NoOperation: true}
	}
	answer := &recorder{status: http.StatusOK, header: make(http.Header)}
	request, err := a.request(method, path, query.Encode(), body)
	if err != nil {
		return err
	}
	a.page.console.API.ServeHTTP(answer, request)
	a.page.calls = append(a.page.calls, Call{Method: method, Path: path, Query: query.Encode(), Body: body.bytes, Status: answer.status, Header: answer.header, Operation: operation})
	if answer.status >= http.StatusBadRequest {
		p := &Problem{RetryAfter: answer.header.Get("Retry-After"), Scope: operation.Scope}
		if json.Unmarshal(answer.body.Bytes(), p) != nil || p.Status != answer.status {
			p.Status, p.Title, p.RequestID = answer.status, http.StatusText(answer.status), a.page.RequestID
		}
		return p
	}
	if into == nil || answer.body.Len() == 0 {
		return nil
	}
	if raw, ok := into.(*[]byte); ok {
		*raw = answer.body.Bytes()
		return nil
	}
	if err := json.Unmarshal(answer.body.Bytes(), into); err != nil {
		return fmt.Errorf("read answer of %s %s: %w", method, operation.Path, err)
	}
	return nil
}

// request makes a request with the session's principal in its context.
func (a *API) request(method, path, query string, body content) (*http.Request, error) {
	p := a.page
	ctx := auth.WithSession(auth.WithPrincipal(p.Context(), p.Session.Principal), p.Session.ID)
	ctx = edge.With(ctx, edge.Of(p.Request))
	// The host is never looked up; a request must have one.
	target := "http://waybill.internal" + path
	if query != "" {
		target += "?" + query
	}
	request, err := http.NewRequestWithContext(ctx, method, target, bytes.NewReader(body.bytes))
	if err != nil {
		return nil, fmt.Errorf("call own operation: %w", err)
	}
	request.Header.Set(requestid.Header, p.RequestID)
	request.Header["User-Agent"] = p.Request.Header["User-Agent"]
	if len(body.bytes) > 0 {
		request.Header.Set("Content-Type", body.kind)
	}
	if a.once != "" {
		request.Header.Set("Idempotency-Key", a.once)
	}
	return request, nil
}

// operation returns the API's operation for a path: of several, the one with the fewest
// parameters.
func (c *Console) operation(method, path string) Operation {
	segments := strings.Split(path, "/")
	var best Operation
	fewest := len(segments) + 1
	for _, o := range c.Operations {
		if n, ok := fits(strings.Split(o.Path, "/"), segments); ok && o.Method == method && n < fewest {
			best, fewest = o, n
		}
	}
	return best
}

// fits reports whether a path has the form of a template, and returns the number of the template's parameters.
func fits(template, path []string) (parameters int, ok bool) {
	if len(template) != len(path) {
		return 0, false
	}
	for i, segment := range template {
		switch {
		case strings.HasPrefix(segment, "{") && path[i] != "":
			parameters++
		case segment != path[i]:
			return 0, false
		}
	}
	return parameters, true
}

// Path joins segments to a path. Each segment is escaped: Path("v1", "events", id).
func Path[S ~string](segments ...S) string {
	var b strings.Builder
	for _, s := range segments {
		b.WriteByte('/')
		segment := string(s)
		if segment == "." || segment == ".." {
			segment = strings.ReplaceAll(segment, ".", "%2E") // otherwise . and .. would change the path
		} else {
			segment = url.PathEscape(segment)
		}
		b.WriteString(segment)
	}
	return b.String()
}

// recorder keeps an answer.
type recorder struct {
	status int
	header http.Header
	body   bytes.Buffer
	wrote  bool
}

func (r *recorder) Header() http.Header { return r.header }

func (r *recorder) WriteHeader(status int) {
	if !r.wrote {
		r.status, r.wrote = status, true
	}
}

func (r *recorder) Write(b []byte) (int, error) {
	r.wrote = true
	return r.body.Write(b)
}
