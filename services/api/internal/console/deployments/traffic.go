package deployments

import (
	"cmp"
	"net/url"
	"slices"
	"strings"
	"time"

	"waybill.dev/services/api/internal/console"
)

// span is a span of time that the API has figures of, with the steps they come in.
type span struct {
	Name, Label string
	Step, Whole time.Duration
}

func spans() []span {
	const day = 24 * time.Hour
	return []span{
		{"last-hour", "Last hour", time.Minute, time.Hour},
		{"last-24-hours", "Last 24 hours", time.Hour, day},
		{"last-7-days", "Last 7 days", time.Hour, 7 * day},
		{"last-30-days", "Last 30 days", day, 30 * day},
		{"last-3-months", "Last 3 months", day, 90 * day},
	}
}

// recentCalls is how many of the newest requests are shown.
const recentCalls = "20"

// code is a status as a text or a number.
type code string

// UnmarshalJSON implements json.Unmarshaler.
func (c *code) UnmarshalJSON(raw []byte) error {
	*c = code(strings.Trim(string(raw), `"`))
	return nil
}

// Class is ok, redirect, refused or failed.
func (c code) Class() string {
	switch {
	case strings.HasPrefix(string(c), "5"):
		return "failed"
	case strings.HasPrefix(string(c), "4"):
		return "refused"
	case strings.HasPrefix(string(c), "3"):
		return "redirect"
	}
	return "ok"
}

// Tone colours a status.
func (c code) Tone() string {
	return map[string]string{"failed": "bad", "refused": "warn", "ok": "good"}[c.Class()]
}

type calls struct {
	StatusCode code `json:"statusCode"`
	Calls      int  `json:"calls"`
}

type counted struct {
	Consumer   string  `json:"consumer"`
	TimeStamp  string  `json:"timeStamp"`
	TotalCalls int     `json:"totalCalls"`
	ByStatus   []calls `json:"callsByStatusCode"`
}

// failed is how many of them ended with 5xx.
func (c counted) failed() int {
	n := 0
	for _, s := range c.ByStatus {
		if s.StatusCode.Class() == "failed" {
			n += s.Calls
		}
	}
	return n
}

type recent struct {
	Consumer   string `json:"consumer"`
	Method     string `json:"method"`
	RoutePath  string `json:"routePath"`
	StatusCode code   `json:"statusCode"`
	TimeStamp  string `json:"timeStamp"`
}

// share is a line of a table of figures.
type share struct {
	Name          string
	Code          code
	Calls, Failed int
	Of            float64 // of all
	Path          string
}

type trafficView struct {
	head

	Spans     []console.Tab
	Consumer  string // whose alone are shown
	Without   string // the page without that
	Total     int
	Failed    int
	Refused   int
	Rate      *float64 // of those that did not fail; nil: there were none
	Bars      console.Bars
	Statuses  []share
	Consumers []share
	More      int // consumers that are not shown
	Recent    []recent
	NoRecent  *console.Problem
	NoFigures *console.Problem
}

// maxConsumers is how many consumers are shown, those with the most requests.
const maxConsumers = 20

func showTraffic(p *console.Page) error {
	d, err := read(p)
	if err != nil {
		return err
	}
	all := spans()
	chosen := all[1]
	for _, s := range all {
		if s.Name == p.Query("filter") {
			chosen = s
		}
	}
	v := trafficView{head: headOf(p, d, "traffic"), Consumer: p.Query("consumer"), Without: d.Path("traffic") + "?filter=" + chosen.Name}
	for _, s := range all {
		to := p.Pick("consumer")
		to.Set("filter", s.Name)
		v.Spans = append(v.Spans, console.Tab{Label: s.Label, Path: d.Path("traffic") + "?" + to.Encode(), Current: s == chosen})
	}
	query := url.Values{"filter": {chosen.Name}}
	if v.Consumer != "" {
		query.Set("consumers", v.Consumer)
	}
	var answer struct {
		Data struct {
			Stats   []counted `json:"stats"`
			Details []counted `json:"details"`
		} `json:"data"`
	}
	if v.NoFigures = p.API.Try(api(d.Name, "stats-by-status-code"), query, &answer); v.NoFigures == nil {
		v.sum(answer.Data.Stats, chosen.Name)
		v.Bars = bars(answer.Data.Details, chosen, p.Now())
	}
	last := url.Values{"limit": {recentCalls}}
	if v.Consumer != "" {
		last.Set("consumers", v.Consumer)
	}
	var newest struct {
		Data []recent `json:"data"`
	}
	v.NoRecent = p.API.Try(api(d.Name, "recent-calls"), last, &newest)
	v.Recent = newest.Data
	return p.Show("traffic.html", "Traffic of "+title(d), v)
}

// sum adds the figures up, by status and by consumer.
func (v *trafficView) sum(stats []counted, filter string) {
	by := map[code]int{}
	for _, s := range stats {
		line := share{Name: s.Consumer, Calls: s.TotalCalls, Failed: s.failed()}
		line.Path = v.Deployment.Path("traffic") + "?" + url.Values{"filter": {filter}, "consumer": {s.Consumer}}.Encode()
		v.Consumers = append(v.Consumers, line)
		v.Total += s.TotalCalls
		v.Failed += line.Failed
		for _, one := range s.ByStatus {
			by[one.StatusCode] += one.Calls
			if one.StatusCode.Class() == "refused" {
				v.Refused += one.Calls
			}
		}
	}
	for status, n := range by {
		v.Statuses = append(v.Statuses, share{Code: status, Calls: n, Of: float64(n) / float64(max(1, v.Total))})
	}
	slices.SortFunc(v.Statuses, func(a, b share) int { return strings.Compare(string(a.Code), string(b.Code)) })
	for i := range v.Consumers {
		v.Consumers[i].Of = float64(v.Consumers[i].Calls) / float64(max(1, v.Total))
	}
	slices.SortFunc(v.Consumers, func(a, b share) int { return cmp.Or(b.Calls-a.Calls, strings.Compare(a.Name, b.Name)) })
	v.More = max(0, len(v.Consumers)-maxConsumers)
	v.Consumers = v.Consumers[:min(maxConsumers, len(v.Consumers))]
	if v.Total > 0 {
		rate := float64(v.Total-v.Failed) / float64(v.Total)
		v.Rate = &rate
	}
}

// bars draws the figures over time, with the steps in which there was nothing.
func bars(details []counted, s span, now time.Time) console.Bars {
	b := console.Bars{Label: "Requests, " + strings.ToLower(s.Label[:1]) + s.Label[1:], Good: "answered", Bad: "failed (5xx)"}
	n := int(s.Whole / s.Step)
	first := now.UTC().Truncate(s.Step).Add(-s.Whole + s.Step)
	b.Points = make([]console.Point, n)
	for i := range b.Points {
		b.Points[i].Start = first.Add(time.Duration(i) * s.Step)
	}
	for _, d := range details {
		at, err := time.Parse(time.RFC3339, d.TimeStamp)
		if i := int(at.Sub(first) / s.Step); err == nil && !at.Before(first) && i < n {
			failed := d.failed()
			b.Points[i].Good += d.TotalCalls - failed
			b.Points[i].Bad += failed
		}
	}
	return b
}
