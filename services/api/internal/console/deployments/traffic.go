package deployments

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"waybill.dev/services/api/internal/console"
	"waybill.dev/services/api/internal/families/traffic"
	"waybill.dev/services/api/internal/kernel/web"
)

// span is a time span for which the API has numbers, with the length of their steps.
type span struct {
	Name, Label string
	Step, Whole time.Duration
}

func spans() []span {
	const day = 24 * time.Hour
	return []span{
		{"last-hour", "1 hour", time.Minute, time.Hour},
		{"last-24-hours", "24 hours", time.Hour, day},
		{"last-7-days", "7 days", time.Hour, 7 * day},
		{"last-30-days", "30 days", day, 30 * day},
		{"last-3-months", "3 months", day, 90 * day},
	}
}

// recentCalls is how many of the newest requests are shown.
const recentCalls = "20"

// failed returns how many requests ended with 5xx.
func failed(c traffic.Calls) (n int64) {
	for _, s := range c.CallsByStatusCode {
		if s.StatusCode >= http.StatusInternalServerError {
			n += s.Calls
		}
	}
	return n
}

// share is a line of a table of figures.
type share struct {
	Name          string
	Code          int
	Calls, Failed int64
	Of            float64 // number of all requests
	Path          string
}

type trafficView struct {
	head

	Spans     []console.Tab
	Consumer  string // the only consumer that is shown
	Without   string // path of the page without that filter
	Total     int64
	Failed    int64
	Refused   int64
	Rate      *float64 // share of requests that did not fail; nil: there were none
	Bars      console.Bars
	Statuses  []share
	Consumers []share
	More      int // consumers that are not shown
	Recent    []traffic.Call
	NoRecent  *console.Problem
	NoFigures *console.Problem
}

// maxConsumers is how many consumers are shown; they are those with the most requests.
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
	var answer traffic.Data[traffic.Statistics]
	if v.NoFigures = p.API.Try(api(d.Name, "stats-by-status-code"), query, &answer); v.NoFigures == nil {
		v.sum(answer.Data.Stats, chosen.Name)
		v.Bars = bars(answer.Data.Details, chosen, p.Now())
	}
	last := url.Values{"limit": {recentCalls}}
	if v.Consumer != "" {
		last.Set("consumers", v.Consumer)
	}
	var newest traffic.Data[[]traffic.Call]
	v.NoRecent = p.API.Try(api(d.Name, "recent-calls"), last, &newest)
	v.Recent = newest.Data
	return p.Show("traffic.html", "Traffic of "+title(d), v)
}

// sum adds the figures up, by status and by consumer.
func (v *trafficView) sum(stats []traffic.Calls, filter string) {
	by := map[int]int64{}
	for _, s := range stats {
		line := share{Name: s.Consumer, Calls: s.TotalCalls, Failed: failed(s)}
		line.Path = v.Deployment.Path("traffic") + "?" + url.Values{"filter": {filter}, "consumer": {s.Consumer}}.Encode()
		v.Consumers = append(v.Consumers, line)
		v.Total += s.TotalCalls
		v.Failed += line.Failed
		for _, one := range s.CallsByStatusCode {
			by[one.StatusCode] += one.Calls
			if one.StatusCode/100 == 4 {
				v.Refused += one.Calls
			}
		}
	}
	for status, n := range by {
		v.Statuses = append(v.Statuses, share{Code: status, Calls: n, Of: float64(n) / float64(max(1, v.Total))})
	}
	slices.SortFunc(v.Statuses, func(a, b share) int { return a.Code - b.Code })
	for i := range v.Consumers {
		v.Consumers[i].Of = float64(v.Consumers[i].Calls) / float64(max(1, v.Total))
	}
	slices.SortFunc(v.Consumers, func(a, b share) int { return cmp.Or(cmp.Compare(b.Calls, a.Calls), strings.Compare(a.Name, b.Name)) })
	v.More = max(0, len(v.Consumers)-maxConsumers)
	v.Consumers = v.Consumers[:min(maxConsumers, len(v.Consumers))]
	if v.Total > 0 {
		rate := float64(v.Total-v.Failed) / float64(v.Total)
		v.Rate = &rate
	}
}

// bars returns the chart of the numbers over time, including empty steps.
func bars(details []traffic.Step, s span, now time.Time) console.Bars {
	b := console.Bars{Label: "Requests, the last " + s.Label, Good: "answered", Bad: "failed (5xx)"}
	n := int(s.Whole / s.Step)
	first := now.UTC().Truncate(s.Step).Add(-s.Whole + s.Step)
	b.Points = make([]console.Point, n)
	for i := range b.Points {
		b.Points[i].Start = first.Add(time.Duration(i) * s.Step)
	}
	for _, d := range details {
		at := web.Time(d.TimeStamp)
		if i := int(at.Sub(first) / s.Step); !at.Before(first) && i < n {
			bad := failed(d.Calls)
			b.Points[i].Good += int(d.TotalCalls - bad)
			b.Points[i].Bad += int(bad)
		}
	}
	return b
}
