// Package jobs has the console's pages of jobs: deliveries that are sent again in the
// background, with their progress.
package jobs

import (
	"cmp"
	"embed"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"waybill.dev/services/api/internal/console"
	"waybill.dev/services/api/internal/console/deliverylog"
	"waybill.dev/services/api/internal/families/jobs"
	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/shared/domain"
)

//go:embed templates/*.html
var files embed.FS

const (
	listPath  = "/console/jobs"
	onePath   = listPath + "/{jobId}"
	againPath = "/console/deliveries/send-again"
	pageSize  = "50"
)

// Module returns the pages.
func Module() console.Module {
	return console.Module{
		Name: "jobs", Templates: files,
		Routes: []console.Route{
			{Method: http.MethodGet, Path: listPath, Handle: list},
			{Method: http.MethodGet, Path: onePath, Handle: show},
			{Method: http.MethodGet, Path: onePath + "/cancel", Handle: confirm},
			{Method: http.MethodPost, Path: onePath + "/cancel", Handle: cancel},
		},
		Nav: []console.NavEntry{{Label: "Jobs", Path: listPath, Icon: "jobs", Order: console.OrderDeliveries + 5, Key: "j", Scopes: []domain.Scope{domain.ScopeEventsRead}}},
	}
}

// job is a job as the API shows it.
type job struct{ jobs.Job }

// Running reports whether the job still sends, or waits for attempts.
func (j job) Running() bool { return j.Status == domain.JobRunning }

// Ended returns how many attempts have ended.
func (j job) Ended() int { return j.Delivered + j.Failed }

// Waiting returns how many deliveries were asked for and have had no attempt yet.
func (j job) Waiting() int { return max(0, j.Sent-j.Ended()) }

// filter returns the selection of the job as filters of a list.
func (j job) filter() url.Values {
	var members map[string]jsontext.Value
	_ = json.Unmarshal(j.Filter, &members) // the API has written it
	query := url.Values{}
	for name, value := range members {
		text := value.String()
		if value.Kind() == '"' {
			unquoted, _ := jsontext.AppendUnquote(nil, value)
			text = string(unquoted)
		}
		if text != "" && value.Kind() != 'n' {
			query.Set(name, text)
		}
	}
	return query
}

// Which returns the status of the selected deliveries.
func (j job) Which() string { return cmp.Or(j.filter().Get("status"), "undelivered") }

func list(p *console.Page) error {
	query := url.Values{"limit": {pageSize}}
	if cursor := p.Query("cursor"); cursor != "" {
		query.Set("cursor", cursor)
	}
	var page web.CursorPage[job]
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

// summary returns a line about what a job sends.
func summary(j job, hooks deliverylog.Webhooks) string {
	parts := []string{j.Which()}
	for _, f := range deliverylog.Describe(j.filter().Get, hooks) {
		parts = append(parts, strings.ToLower(f.Name[:1])+f.Name[1:]+" "+f.Value)
	}
	return strings.Join(parts, ", ")
}

type jobView struct {
	Job     job
	Facts   []console.Fact
	MaySend bool
	Left    string // about how long the job still takes; empty: not known
	Failed  string // path to send the failed deliveries again
	Log     string // path of the deliveries that the filter selects
}

func show(p *console.Page) error {
	j, err := read(p)
	if err != nil {
		return err
	}
	p.CLI("jobs get " + j.ID)
	hooks, _ := deliverylog.ReadWebhooks(p)
	v := jobView{Job: j, Facts: deliverylog.Describe(j.filter().Get, hooks), MaySend: p.May(domain.ScopeEventsWrite), Left: left(j, p.Now())}
	query := j.filter()
	query.Del("dryRun")
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

// left returns about how long a job still takes, estimated from the time so far.
func left(j job, now time.Time) string {
	ended := j.Ended()
	if !j.Running() || ended == 0 || ended >= j.Matched {
		return ""
	}
	rest := time.Duration(float64(now.Sub(web.Time(j.CreatedAt))) / float64(ended) * float64(j.Matched-ended))
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
