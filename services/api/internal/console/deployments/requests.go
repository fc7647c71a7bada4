package deployments

import (
	"net/url"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"waybill.dev/services/api/internal/console"
)

// perPage is how many requests a page has.
const perPage = "50"

// request is a line of the log of requests, and the whole of one.
type request struct {
	RequestID  string  `json:"requestId"`
	Timestamp  string  `json:"timestamp"`
	Method     string  `json:"method"`
	Path       string  `json:"path"`
	RoutePath  string  `json:"routePath"`
	StatusCode code    `json:"statusCode"`
	DurationMs float64 `json:"durationMs"`
	Consumer   string  `json:"consumer"`
	Severity   string  `json:"severity"`
	BuildID    string  `json:"buildId"`
}

// entry is what a policy, a handler or an MCP call has said of a request.
type entry struct {
	Timestamp  string         `json:"timestamp"`
	Severity   string         `json:"severity"`
	Source     string         `json:"source"`
	Message    string         `json:"message"`
	Attributes jsontext.Value `json:"attributes"`
}

// HasAttributes reports whether there are any.
func (e entry) HasAttributes() bool {
	text := strings.TrimSpace(string(e.Attributes))
	return text != "" && text != "null" && text != "{}"
}

type requestsView struct {
	head

	Form       *console.Form
	Methods    []console.Option
	Statuses   []console.Option
	Severities []console.Option
	More       bool
	Filtered   bool
	Requests   []request
	NotKept    int
	Paging     console.Paging
	NoList     *console.Problem
	Clear      string
}

// filters are those of the API's list, by their names there.
func filters() []string {
	return []string{"httpMethod", "httpStatus", "routePath", "search", "severity", "startTime", "endTime"}
}

func listRequests(p *console.Page) error {
	d, err := read(p)
	if err != nil {
		return err
	}
	query := p.Pick(filters()...)
	shown := p.Pick(filters()...)
	for _, name := range []string{"startTime", "endTime"} {
		query, shown = instant(query, name), local16(shown, name)
	}
	v := requestsView{
		head: headOf(p, d, "requests"), Form: console.NewForm(shown), Filtered: len(query) > 0, Clear: d.Path("requests"),
		Methods:    choices("any", "GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"),
		Statuses:   choices("any", "2xx", "3xx", "4xx", "5xx"),
		Severities: choices("any", "error", "warn", "info", "debug"),
		More:       query.Has("startTime") || query.Has("endTime") || query.Has("routePath"),
	}
	query.Set("limit", perPage)
	if cursor := p.Query("cursor"); cursor != "" {
		query.Set("cursor", cursor)
	}
	var answer struct {
		Data       []request `json:"data"`
		Pagination struct {
			Cursor *string `json:"cursor"`
		} `json:"pagination"`
		NotKept int `json:"notKept"`
	}
	if v.NoList = p.API.Try(api(d.Name, "request-logs"), query, &answer); v.NoList != nil && v.Form.Failed(v.NoList) {
		v.NoList = nil
		return p.ShowInvalid("requests.html", "Requests of "+title(d), v, v.Form)
	}
	v.Requests, v.NotKept, v.Paging = answer.Data, answer.NotKept, p.Paging(answer.Pagination.Cursor)
	return p.Show("requests.html", "Requests of "+title(d), v)
}

func choices(none string, values ...string) []console.Option {
	list := []console.Option{{Value: "", Label: none}}
	for _, value := range values {
		list = append(list, console.Option{Value: value, Label: value})
	}
	return list
}

// instant makes RFC 3339 of what the browser's field for times says, which is in UTC.
func instant(query url.Values, name string) url.Values {
	for _, layout := range []string{"2006-01-02T15:04:05", "2006-01-02T15:04", time.DateOnly} {
		if t, err := time.Parse(layout, query.Get(name)); err == nil {
			query.Set(name, t.Format(time.RFC3339))
		}
	}
	return query
}

// local16 makes of RFC 3339 what the browser's field for times takes.
func local16(query url.Values, name string) url.Values {
	if t, err := time.Parse(time.RFC3339, query.Get(name)); err == nil {
		query.Set(name, t.UTC().Format("2006-01-02T15:04:05"))
	}
	return query
}

type requestView struct {
	head

	Request request
	Facts   []console.Fact
	Backend []console.Fact
	MCP     []console.Fact
	Entries []entry
	Cut     bool // not all that was said is kept
	Build   string
}

// whole is what the API tells of one request.
type whole struct {
	request

	ClientRequestID string  `json:"clientRequestId"`
	Host            string  `json:"host"`
	RemoteNetwork   string  `json:"remoteNetwork"`
	BytesIn         *int64  `json:"bytesIn"`
	BytesOut        *int64  `json:"bytesOut"`
	Entries         []entry `json:"entries"`
	Truncated       bool    `json:"truncated"`
	Backend         *struct {
		Host       string  `json:"host"`
		Status     code    `json:"status"`
		DurationMs float64 `json:"durationMs"`
	} `json:"backEnd"`
	MCP *struct {
		Method string `json:"method"`
		Tool   string `json:"tool"`
	} `json:"mcp"`
}

func showRequest(p *console.Page) error {
	d, err := read(p)
	if err != nil {
		return err
	}
	id := p.Param("requestId")
	var w whole
	if err := p.API.Get(api(d.Name, "request-logs", id), nil, &w); err != nil {
		return err
	}
	return p.Show("request.html", "Request of "+title(d), viewOf(headOf(p, d, "requests"), w))
}

func viewOf(h head, w whole) requestView {
	v := requestView{head: h, Request: w.request, Entries: w.Entries, Cut: w.Truncated}
	if w.BuildID != "" {
		v.Build = h.Deployment.BuildPath(w.BuildID)
	}
	add := func(list *[]console.Fact, name, value string) {
		if value != "" {
			*list = append(*list, console.Fact{Name: name, Value: value})
		}
	}
	add(&v.Facts, "Host", w.Host)
	add(&v.Facts, "Route", w.RoutePath)
	add(&v.Facts, "Consumer", w.Consumer)
	add(&v.Facts, "Network", w.RemoteNetwork)
	add(&v.Facts, "Bytes in", bytesOf(w.BytesIn))
	add(&v.Facts, "Bytes out", bytesOf(w.BytesOut))
	add(&v.Facts, "The caller's id", w.ClientRequestID)
	if b := w.Backend; b != nil {
		add(&v.Backend, "Host", b.Host)
		add(&v.Backend, "Status", string(b.Status))
		add(&v.Backend, "Took", console.Millis(b.DurationMs))
	}
	if m := w.MCP; m != nil {
		add(&v.MCP, "Method", m.Method)
		add(&v.MCP, "Tool", m.Tool)
	}
	return v
}

func bytesOf(n *int64) string {
	if n == nil {
		return ""
	}
	return console.Number(*n)
}
