package route

import (
	"net/http"
	"sync"
	"time"

	"waybill.dev/shared/apikey"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/edge"
	"waybill.dev/shared/requestid"
)

// Bounds of a request's log, with the entry that every request ends with.
const (
	maxEntries    = 16
	maxEntryBytes = 16 << 10
)

// Record describes a request to a site, including all calls inside the process that were made for
// it. It never contains a query, a header, a body or a key. The methods of a nil Record do nothing.
type Record struct {
	At   time.Time // when the request arrived
	Took time.Duration
	// RequestID is the X-Request-Id of the answer. ClientRequestID is that of the request; empty:
	// the request has none, or it equals RequestID.
	RequestID, ClientRequestID string
	Method, Host, Path         string // the escaped path as it arrived
	RoutePath                  string // as the route file writes it; empty: no route has the path
	Remote                     string // the client's address, without the port; empty: not known
	Status                     int    // 0: there was no answer
	BytesIn, BytesOut          int64  // size of the bodies

	mu        sync.Mutex
	principal *apikey.Principal
	subject   string // subject of the client's certificate
	entries   []Entry
	room      int // remaining room for entries, in bytes
	severity  domain.Severity
	truncated bool
	backEnd   BackEndCall
	mcpMethod string
	mcpTool   string
}

// Entry is one line of a request's log.
type Entry struct {
	At       time.Time
	Severity domain.Severity
	Source   string
	Message  string
	// Attributes are names, each followed by its value.
	Attributes []any
}

// BackEndCall is a request of a route to a back end.
type BackEndCall struct {
	Host   string // empty: no back end was called
	Status int    // 0: there was no answer
	Took   time.Duration
}

// Begin returns the record of a request, which must be passed to End; nil: requests are not
// recorded. Template is the path of the route that was found.
func (rt *Runtime) Begin(r *http.Request, seen edge.View, requestID, template string) *Record {
	if rt.Ended == nil {
		return nil
	}
	record := &Record{
		At: time.Now(), RequestID: requestID, Method: r.Method, Host: seen.Host, Path: PathOf(r.URL), RoutePath: template,
		Remote: seen.Address, room: maxEntryBytes, severity: domain.SeverityInfo,
	}
	if given := requestid.Given(r.Header); given != requestID {
		record.ClientRequestID = given
	}
	return record
}

// End reports a request after the end of its answer.
func (rt *Runtime) End(record *Record) {
	if record == nil {
		return
	}
	record.Took = time.Since(record.At)
	rt.Ended(record)
}

// Answered notes that the answer has begun with a status, or that so many bytes more were sent.
func (r *Record) Answered(status, bytes int) {
	if r == nil {
		return
	}
	if r.Status == 0 {
		r.Status = status
	}
	r.BytesOut += int64(bytes)
}

// Note adds an entry. Source is the part of the route that makes the entry: policy NAME, handler,
// mcp or gateway. Attributes are names with their values, which are texts, numbers or booleans.
// They must not contain anything that the caller has sent.
func (r *Record) Note(severity domain.Severity, source, message string, attributes ...any) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if severity.Above(r.severity) {
		r.severity = severity
	}
	size := len(source) + len(message)
	for _, value := range attributes {
		text, _ := value.(string)
		size += len(text) + 8
	}
	if len(r.entries) == maxEntries-1 || r.room <= len(source) {
		r.truncated = true
		return
	}
	if size > r.room {
		r.truncated, attributes = true, nil
		message = message[:min(len(message), r.room-len(source))]
		size = r.room
	}
	r.room -= size
	r.entries = append(r.entries, Entry{At: time.Now(), Severity: severity, Source: source, Message: message, Attributes: attributes})
}

// Calls notes the caller. The first caller that is not nil counts.
func (r *Record) Calls(principal *apikey.Principal) {
	if r == nil || principal == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.principal == nil {
		r.principal = principal
	}
}

// Shows notes the valid certificate that the client has shown.
func (r *Record) Shows(certificate *Certificate) {
	if r == nil || certificate == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.subject = certificate.Subject
}

// Asked notes a call of a back end. The last one counts.
func (r *Record) Asked(call BackEndCall) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.backEnd = call
}

// MCP says which method of an MCP server was called, and which tool; empty: none. The last one
// counts.
func (r *Record) MCP(method, tool string) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mcpMethod, r.mcpTool = method, tool
}

// RequestNotes is everything that the methods of a Record have noted.
type RequestNotes struct {
	Principal *apikey.Principal // nil: not known
	Subject   string            // subject of the client's certificate; empty: no valid certificate was shown
	Entries   []Entry
	Severity  domain.Severity // the highest of the entries' and that of the status
	Truncated bool            // entries are cut or missing
	BackEnd   BackEndCall
	MCPMethod string
	MCPTool   string
}

// Notes returns everything that was noted. It is called when the request has ended.
func (r *Record) Notes() RequestNotes {
	r.mu.Lock()
	defer r.mu.Unlock()
	severity := r.severity
	if of := domain.SeverityOfStatus(r.Status); of.Above(severity) {
		severity = of
	}
	return RequestNotes{r.principal, r.subject, r.entries, severity, r.truncated, r.backEnd, r.mcpMethod, r.mcpTool}
}

// Received notes in the record how much of the body has arrived. It is called when the body is not
// read any more.
func (r *Request) Received() {
	switch {
	case r.Record == nil:
	case r.Source != nil:
		r.Record.BytesIn = r.Source.Received()
	default:
		r.Record.BytesIn = int64(len(r.Body))
	}
}
