// Package jobs has the console's pages of jobs: deliveries that are sent again in the
// background, with their progress.
package jobs

import (
	"cmp"
	"embed"
	"io/fs"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"waybill.dev/services/api/internal/console"
	"waybill.dev/services/api/internal/console/deliverylog"
	"waybill.dev/services/api/internal/console/words"
	"waybill.dev/shared/domain"
)

//go:embed templates/*.html
var files embed.FS

const (
	listPath  = "/console/jobs"
	onePath   = listPath + "/{jobId}"
	againPath = "/console/deliveries/send-again"
	pageSize  = "50"
	running   = "running"
)

// Module returns the pages.
func Module() console.Module {
	templates, _ := fs.Sub(files, "templates") // the name is a constant
	return console.Module{
		Name: "jobs", Templates: templates,
		Routes: []console.Route{
			{Method: http.MethodGet, Path: listPath, Handle: list},
			{Method: http.MethodGet, Path: onePath, Handle: show},
			{Method: http.MethodGet, Path: onePath + "/cancel", Handle: confirm},
			{Method: http.MethodPost, Path: onePath + "/cancel", Handle: cancel},
		},
		Nav: []console.NavEntry{{Label: "Jobs", Path: listPath, Icon: "jobs", Order: console.OrderDeliveries + 5, Key: "j"}},
	}
}

// job is a job as the API shows it.
type job struct {
	ID        string                    `json:"id"`
	Kind      string                    `json:"kind"`
	Status    string                    `json:"status"`
	Filter    map[string]jsontext.Value `json:"filter"`
	Matched   int                       `json:"matched"`
	Sent      int                       `json:"sent"`
	Delivered int                       `json:"delivered"`
	Failed    int                       `json:"failed"`
	CreatedAt string                    `json:"createdAt"`
	CreatedBy string                    `json:"createdBy"`
}

// Running reports whether it still sends, or waits for attempts.
func (j job) Running() bool { return j.Status == running }

// Ended is how many attempts have ended.
func (j job) Ended() int { return j.Delivered + j.Failed }

// Waiting is how many were asked for and have had no attempt yet.
func (j job) Waiting() int { return max(0, j.Sent-j.Ended()) }

// filter returns a member of the job's filter as text; empty: it is not there.
func (j job) filter(name string) string {
	raw := j.Filter[name]
	if raw.Kind() == '"' {
		text, err := jsontext.AppendUnquote(nil, raw)
		if err != nil {
			return ""
		}
		return string(text)
	}
	if raw.Kind() == 'n' {
		return ""
	}
	return string(raw)
}

// Which says which deliveries it takes.
func (j job) Which() string { return cmp.Or(j.filter("status"), "undelivered") }

func list(p *console.Page) error {
	query := url.Values{"limit": {pageSize}}
	if cursor := p.Query("cursor"); cursor != "" {
		query.Set("cursor", cursor)
	}
	var page struct {
		Data       []job   `json:"data"`
		NextCursor *string `json:"nextCursor"`
	}
	if err := p.API.Get("/v1/jobs", query, &page); err != nil {
		return err
	}
	p.CLI("jobs list")
	hooks, _ := deliverylog.ReadWebhooks(p)
	v := listView{Paging: p.Paging(page.NextCursor)}
	for _, j := range page.Data {
		v.Rows = append(v.Rows, row{j, summary(j, hooks)})
	}
	return p.Show("list.html", "Jobs", v)
}

type listView struct {
	Rows   []row
	Paging console.Paging
}

type row struct {
	job

	What string
}

// summary says in a line what a job sends.
func summary(j job, hooks deliverylog.Webhooks) string {
	parts := []string{j.Which()}
	for _, f := range facts(j, hooks) {
		parts = append(parts, strings.ToLower(f.Name[:1])+f.Name[1:]+" "+f.Value)
	}
	return strings.Join(parts, ", ")
}

// facts says a job's filter, but for the status.
func facts(j job, hooks deliverylog.Webhooks) []console.Fact {
	var list []console.Fact
	known := []struct{ name, label string }{
		{"webhookId", "To webhook"}, {"eventType", "Of type"}, {"shipmentId", "Of shipment"}, {"eventId", "Of event"}, {"reason", "With reason"},
		{"class", "Last attempt"}, {"statusCode", "Last status"}, {"test", "Tests"}, {"since", "Accepted since"}, {"until", "Accepted before"},
	}
	for _, f := range known {
		value := j.filter(f.name)
		switch {
		case value == "":
			continue
		case f.name == "webhookId":
			value = hooks.Of(value).Name()
		case f.name == "reason":
			value = words.Reason(value)
		}
		list = append(list, console.Fact{Name: f.label, Value: value})
	}
	return list
}

type jobView struct {
	Job     job
	Facts   []console.Fact
	MaySend bool
	Left    string // about how long it still takes; empty: that can't be told
	Failed  string // where what failed is sent again
	Log     string // the deliveries that the filter selects
}

func show(p *console.Page) error {
	j, err := read(p)
	if err != nil {
		return err
	}
	p.CLI("jobs get " + j.ID)
	hooks, _ := deliverylog.ReadWebhooks(p)
	v := jobView{Job: j, Facts: facts(j, hooks), MaySend: p.May(domain.ScopeEventsWrite), Left: left(j, p.Now())}
	query := url.Values{}
	for name := range j.Filter {
		if value := j.filter(name); value != "" && name != "dryRun" {
			query.Set(name, value)
		}
	}
	query.Set("status", "undelivered")
	v.Failed = againPath + "?" + query.Encode()
	query.Del("status")
	v.Log = "/console/deliveries"
	if len(query) > 0 {
		v.Log += "?" + query.Encode()
	}
	return p.Show("job.html", "Job", v)
}

func read(p *console.Page) (job, error) {
	var j job
	err := p.API.Get(console.Path("v1", "jobs", p.Param("jobId")), nil, &j)
	return j, err
}

// left says about how long a job still takes, going by how long it has taken so far.
func left(j job, now time.Time) string {
	began, err := time.Parse(time.RFC3339, j.CreatedAt)
	ended := j.Ended()
	if err != nil || !j.Running() || ended == 0 || ended >= j.Matched {
		return ""
	}
	rest := time.Duration(float64(now.Sub(began)) / float64(ended) * float64(j.Matched-ended))
	switch {
	case rest < time.Minute:
		return "under a minute"
	case rest < time.Hour:
		return "about " + strconv.Itoa(int(rest.Round(time.Minute)/time.Minute)) + " min"
	}
	return "about " + strconv.FormatFloat(rest.Hours(), 'f', 1, 64) + " h"
}

func confirm(p *console.Page) error {
	j, err := read(p)
	if err != nil {
		return err
	}
	path := console.Path("console", "jobs", j.ID)
	return p.ShowConfirm(console.Confirm{
		Title: "Cancel this job?", Verb: "Cancel the job", Danger: true, Action: path + "/cancel", Back: path,
		Effect: "What was sent goes on. What was not sent yet is not sent by this job, and stays as it is.",
		Facts:  []console.Fact{{Name: "Job", Value: j.ID}, {Name: "Sent so far", Value: strconv.Itoa(j.Sent) + " of " + strconv.Itoa(j.Matched)}},
	})
}

func cancel(p *console.Page) error {
	id := p.Param("jobId")
	if err := p.API.Send(http.MethodDelete, console.Path("v1", "jobs", id), nil, nil); err != nil {
		return err
	}
	return p.Done("The job sends nothing more.", console.Path("console", "jobs", id))
}
