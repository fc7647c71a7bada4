package deployments

import (
	"strconv"
	"strings"

	"waybill.dev/services/api/internal/console"
	"waybill.dev/services/api/internal/families/traffic"
	"waybill.dev/services/api/internal/kernel/web"
)

// perPage is how many requests a page has.
const perPage = "50"

// entry is a line in the log of a request.
type entry struct {
	traffic.Entry

	After string // time since the beginning of the request
}

// HasAttributes reports whether the entry has attributes.
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
	Range      console.Range
	Filtered   bool
	Requests   []traffic.Request[int]
	NotKept    int64
	Paging     console.Paging
	NoList     *console.Problem
	Clear      string
}

// filters returns the filters of the API's list, by their names there.
func filters() []string {
	return []string{"httpMethod", "httpStatus", "routePath", "search", "severity", "startTime", "endTime"}
}

func listRequests(p *console.Page) error {
	d, err := read(p)
	if err != nil {
		return err
	}
	query, form := p.Filters(filters()...)
	v := requestsView{
		head: headOf(p, d, "requests"), Form: form, Filtered: len(query) > 0, Clear: d.Path("requests"),
		Methods:    console.Choices("any", "GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"),
		Statuses:   console.Choices("any", "2xx", "3xx", "4xx", "5xx"),
		Severities: console.Choices("any", "error", "warn", "info", "debug"),
		More:       query.Has("routePath"),
		Range:      p.Range(form, "startTime", "endTime"),
	}
	query.Set("limit", perPage)
	if cursor := p.Query("cursor"); cursor != "" {
		query.Set("cursor", cursor)
	}
	var answer traffic.Requests
	if v.NoList = p.API.Try(api(d.Name, "request-logs"), query, &answer); v.NoList != nil && v.Form.Failed(v.NoList) {
		v.NoList = nil
		return p.ShowInvalid("requests.html", "Requests of "+title(d), v, v.Form)
	}
	v.Requests, v.NotKept, v.Paging = answer.Data, answer.NotKept, p.Paging(answer.Pagination.Cursor)
	return p.Show("requests.html", "Requests of "+title(d), v)
}

type requestView struct {
	head

	Request traffic.Detail
	Facts   []console.Fact
	Backend []console.Fact
	MCP     []console.Fact
	Entries []entry
	Cut     bool // the log is not complete
	Build   string
}

func showRequest(p *console.Page) error {
	d, err := read(p)
	if err != nil {
		return err
	}
	id := p.Param("requestId")
	var w traffic.Detail
	if err := p.API.Get(api(d.Name, "request-logs", id), nil, &w); err != nil {
		return err
	}
	return p.Show("request.html", "Request of "+title(d), viewOf(headOf(p, d, "requests"), w))
}

func viewOf(h head, w traffic.Detail) requestView {
	v := requestView{head: h, Request: w, Entries: web.Views(w.Entries, func(e traffic.Entry) entry {
		return entry{e, console.Offset(web.Time(e.Timestamp).Sub(web.Time(w.Timestamp)))}
	}), Cut: w.Truncated}
	if w.BuildID != nil {
		v.Build = h.Deployment.BuildPath(*w.BuildID)
	}
	add := func(list *[]console.Fact, name, value string) {
		if value != "" {
			*list = append(*list, console.Fact{Name: name, Value: value})
		}
	}
	add(&v.Facts, "Host", w.Host)
	add(&v.Facts, "Route", w.RoutePath)
	add(&v.Facts, "Consumer", w.Consumer)
	add(&v.Facts, "Network", web.Value(w.RemoteNetwork))
	add(&v.Facts, "Bytes in", console.Number(w.BytesIn))
	add(&v.Facts, "Bytes out", console.Number(w.BytesOut))
	add(&v.Facts, "The caller's id", web.Value(w.ClientRequestID))
	if b := w.BackEnd; b != nil {
		add(&v.Backend, "Host", b.Host)
		if b.Status != nil {
			add(&v.Backend, "Status", strconv.Itoa(*b.Status))
		}
		add(&v.Backend, "Took", console.Millis(b.DurationMs))
	}
	if m := w.MCP; m != nil {
		add(&v.MCP, "Method", m.Method)
		add(&v.MCP, "Tool", web.Value(m.Tool))
	}
	return v
}
