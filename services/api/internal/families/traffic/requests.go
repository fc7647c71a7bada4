package traffic

import (
	"math"
	"net/http"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/input"
	"waybill.dev/shared/store/traffic"
)

const (
	maxRequests     = 200
	defaultRequests = 100
	maxSearch       = 200
	maxRoutePath    = 2048
	maxMethod       = 64
	// searchTime is how much of the log a search without other filters reads: it reads every row.
	searchTime = time.Hour
)

// Request is a line of the log of requests. In a list, it has the number of entries; a single request has the entries
// themselves.
type Request[E int | []Entry] struct {
	RequestID  string          `json:"requestId"`
	Timestamp  *string         `json:"timestamp"`
	Method     string          `json:"method"`
	Path       string          `json:"path"`
	RoutePath  string          `json:"routePath"`
	StatusCode int             `json:"statusCode"`
	DurationMs float64         `json:"durationMs"`
	Consumer   string          `json:"consumer"`
	Severity   domain.Severity `json:"severity"`
	Entries    E               `json:"entries"`
	BuildID    *string         `json:"buildId"`
}

func viewRequest[E int | []Entry](r traffic.Request, entries E) Request[E] {
	return Request[E]{
		RequestID: r.RequestID, Timestamp: web.Stamp(r.At), Method: r.Method, Path: r.Path, RoutePath: r.RoutePath, StatusCode: r.Status,
		DurationMs: milliseconds(r.Took), Consumer: r.Consumer, Severity: r.Severity, Entries: entries, BuildID: web.Optional(r.BuildID),
	}
}

func milliseconds(d time.Duration) float64 { return math.Round(float64(d.Microseconds())) / 1000 }

// Pagination has the cursor for the next page.
type Pagination struct {
	Limit  int     `json:"limit"`
	Cursor *string `json:"cursor"`
}

// Requests are a page of the log.
type Requests struct {
	Data       []Request[int] `json:"data"`
	Pagination Pagination     `json:"pagination"`
	NotKept    int64          `json:"notKept"`
}

func (h *handlers) list(c *web.Call) error {
	q := c.Query()
	filter := traffic.RequestFilter{
		Since: q.Time("startTime"), Until: q.Time("endTime"), Method: q.Within("httpMethod", maxMethod),
		Class:    readClass(q),
		Severity: input.OneOf(q, "severity", domain.Severities()), Search: q.Within("search", maxSearch),
		Limit: q.Integer("limit", 1, maxRequests, defaultRequests),
	}
	if path, given := q.Text("routePath"); given {
		if len(path) > maxRoutePath {
			q.Fault("routePath", "is too long")
		}
		filter.RoutePath = &path
	}
	filter.Cursor, _ = q.Text("cursor")
	readTime(q, &filter)
	deployment, err := h.deployment(c)
	if err != nil {
		return err
	}
	filter.Deployment = deployment
	requests, next, err := h.traffic.ListRequests(c.Context(), filter)
	if err != nil {
		return web.CursorFault(err)
	}
	since := filter.Since
	if since.Before(filter.NotBefore) {
		since = filter.NotBefore
	}
	notKept, err := h.traffic.NotKept(c.Context(), deployment, since, filter.Until)
	if err != nil {
		return err
	}
	views := web.Views(requests, func(r traffic.Request) Request[int] { return viewRequest(r, r.EntryCount) })
	return c.Answer(http.StatusOK, Requests{views, Pagination{filter.Limit, web.Optional(next)}, notKept})
}

// readTime limits a filter's time range to a range that can be searched.
func readTime(q *input.Query, f *traffic.RequestFilter) {
	since, until := f.Since, f.Until
	if !since.IsZero() && !until.IsZero() && until.Before(since) {
		q.Fault("endTime", "must not be before startTime")
	}
	if f.Search == "" || f.Method != "" || f.Class > 0 || f.RoutePath != nil || f.Severity != "" {
		return
	}
	if until.IsZero() {
		until = time.Now()
	}
	if since.IsZero() {
		f.NotBefore = until.Add(-searchTime)
	} else if until.Sub(since) > searchTime {
		q.Fault("search", "without another filter is for at most an hour: give a startTime and an endTime that are closer, or another filter")
	}
}

// Entry is a log entry of a policy, a handler or an MCP call for a request.
type Entry struct {
	Timestamp  *string         `json:"timestamp"`
	Severity   domain.Severity `json:"severity"`
	Source     string          `json:"source"`
	Message    string          `json:"message"`
	Attributes jsontext.Value  `json:"attributes"`
}

// BackEnd is the answer of a back end.
type BackEnd struct {
	Host       string  `json:"host"`
	Status     *int    `json:"status"` // null: it did not answer
	DurationMs float64 `json:"durationMs"`
}

// MCP is the call of an MCP client.
type MCP struct {
	Method string  `json:"method"`
	Tool   *string `json:"tool"`
}

// Detail is one request.
type Detail struct {
	Request[[]Entry]

	ClientRequestID *string  `json:"clientRequestId"`
	Host            string   `json:"host"`
	RemoteNetwork   *string  `json:"remoteNetwork"`
	BytesIn         int64    `json:"bytesIn"`
	BytesOut        int64    `json:"bytesOut"`
	BackEnd         *BackEnd `json:"backEnd"`
	MCP             *MCP     `json:"mcp"`
	Truncated       bool     `json:"truncated"`
}

func (h *handlers) get(c *web.Call) error {
	deployment, err := h.deployment(c)
	if err != nil {
		return err
	}
	r, err := h.traffic.GetRequest(c.Context(), deployment, c.Param("requestId"))
	if err != nil {
		return err
	}
	v := Detail{
		Request: viewRequest(r, web.Views(append(r.Entries, r.Last()), viewEntry)), ClientRequestID: web.Optional(r.ClientRequestID), Host: r.Host, RemoteNetwork: web.Optional(r.Network),
		BytesIn: r.BytesIn, BytesOut: r.BytesOut, Truncated: r.Truncated,
	}
	if r.BackEnd.Host != "" {
		v.BackEnd = &BackEnd{Host: r.BackEnd.Host, DurationMs: milliseconds(r.BackEnd.Took)}
		if r.BackEnd.Status > 0 {
			v.BackEnd.Status = &r.BackEnd.Status
		}
	}
	if r.MCPMethod != "" {
		v.MCP = &MCP{Method: r.MCPMethod, Tool: web.Optional(r.MCPTool)}
	}
	return c.Answer(http.StatusOK, v)
}

func viewEntry(e traffic.Entry) Entry {
	v := Entry{Timestamp: web.Stamp(e.At), Severity: e.Severity, Source: e.Source, Message: e.Message, Attributes: e.Attributes}
	if v.Attributes == nil {
		v.Attributes = jsontext.Value("{}")
	}
	return v
}

// readClass returns the first digit of the statuses that are asked for; 0: all are.
func readClass(q *input.Query) int {
	text := input.OneOf(q, "httpStatus", []string{"2xx", "3xx", "4xx", "5xx"})
	if text == "" {
		return 0
	}
	return int(text[0] - '0')
}
