package deliveries

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"waybill.dev/services/api/internal/console"
	"waybill.dev/services/api/internal/console/deliverylog"
	"waybill.dev/services/api/internal/families/deliveries"
	"waybill.dev/services/api/internal/families/jobs"
	"waybill.dev/shared/domain"
)

// undelivered is the default selection of the API for sending again: deliveries that failed or are
// being retried.
const undelivered = "undelivered"

// many is the body of POST /v1/deliveries/retry: a filter as in the lists.
type many struct {
	Status     string `json:"status,omitzero"`
	WebhookID  string `json:"webhookId,omitzero"`
	EventType  string `json:"eventType,omitzero"`
	ShipmentID string `json:"shipmentId,omitzero"`
	EventID    string `json:"eventId,omitzero"`
	Reason     string `json:"reason,omitzero"`
	Class      string `json:"class,omitzero"`
	StatusCode int    `json:"statusCode,omitzero"`
	Test       *bool  `json:"test,omitzero"`
	Since      string `json:"since,omitzero"`
	Until      string `json:"until,omitzero"`
	DryRun     bool   `json:"dryRun,omitzero"`
}

func newMany(query url.Values) many {
	m := many{
		Status: cmp.Or(query.Get("status"), undelivered), WebhookID: query.Get("webhookId"), EventType: query.Get("eventType"), ShipmentID: query.Get("shipmentId"),
		EventID: query.Get("eventId"), Reason: query.Get("reason"), Class: query.Get("class"), Since: query.Get("since"), Until: query.Get("until"),
	}
	m.StatusCode, _ = strconv.Atoi(query.Get("statusCode"))
	if test, err := strconv.ParseBool(query.Get("test")); err == nil {
		m.Test = &test
	}
	return m
}

type previewView struct {
	Form    *console.Form
	Which   []console.Option
	Keep    url.Values // the filters without the status
	All     url.Values // the filters with the status, for the form that starts
	Facts   []console.Fact
	Plan    deliverylog.Plan
	Command string
	Back    string
}

// again returns the filters of the list as filters of a preview.
func again(query url.Values) url.Values {
	to := without(query)
	if !to.Has("status") {
		to.Set("status", undelivered)
	}
	return to
}

// preview shows what sending all matching deliveries again would do.
func preview(p *console.Page) error {
	query, _ := p.Filters(filters()...)
	v, query := newPreview(p, query)
	body := newMany(query)
	body.DryRun = true
	err := p.API.Send(http.MethodPost, retryManyAPI, body, &v.Plan)
	p.CLI(cli("deliveries retry-all --dry-run", query))
	if v.Form.Failed(err) {
		return p.ShowInvalid("again.html", "Send again", v, v.Form)
	}
	if err != nil {
		return err
	}
	return p.Show("again.html", "Send again", v)
}

func newPreview(p *console.Page, query url.Values) (previewView, url.Values) {
	query = again(query)
	hooks, _ := deliverylog.ReadWebhooks(p)
	v := previewView{
		Form: console.NewForm(query), All: query, Keep: without(query, "status"), Facts: deliverylog.Describe(query.Get, hooks),
		Command: "waybill " + cli("deliveries retry-all", query), Back: listPath,
		Which: []console.Option{
			{Value: undelivered, Label: "undelivered: failed or waiting"}, {Value: "failed", Label: "failed only"}, {Value: "retrying", Label: "waiting for their next attempt"},
			{Value: "delivered", Label: "delivered only: they arrive twice"}, {Value: "all", Label: "all: what was delivered arrives twice"},
		},
	}
	if status := query.Get("status"); !slices.ContainsFunc(v.Which, func(o console.Option) bool { return o.Value == status }) {
		v.Which = append(v.Which, console.Option{Value: status, Label: console.Visible(status)})
	}
	back := without(query)
	if status := query.Get("status"); status == undelivered || status == "all" {
		back.Del("status")
	}
	if len(back) > 0 {
		v.Back += "?" + back.Encode()
	}
	return v, query
}

// start starts a job that sends all matching deliveries again.
func start(p *console.Page) error {
	form, err := p.Form()
	if err != nil {
		return err
	}
	query := url.Values{}
	for _, name := range filters() {
		if value := form.Get(name); value != "" {
			query.Set(name, value)
		}
	}
	var made jobs.Made
	err = p.API.Send(http.MethodPost, retryManyAPI, newMany(again(query)), &made)
	f := console.NewForm(query)
	if f.Failed(err) {
		v, _ := newPreview(p, query)
		v.Form = f
		return p.ShowInvalid("again.html", "Send again", v, f)
	}
	if err != nil {
		return err
	}
	message := fmt.Sprintf("Sending %d deliveries again.", made.Matched)
	if p.Has(jobPath + "/{jobId}") {
		return p.Done(message, console.Path("console", "jobs", made.ID))
	}
	return p.Done(message, listPath)
}

// maxChosen is how many deliveries can be chosen by hand: all of a page.
const maxChosen = 100

type chosenView struct {
	Rows      []row
	IDs       []string // deliveries that can be sent again
	Delivered int      // number of those that were delivered already
	InFlight  int
	Back      string
}

// chosen shows what sending some deliveries again would do.
func chosen(p *console.Page) error {
	ids := p.Request.URL.Query()["id"]
	ids = ids[:min(len(ids), maxChosen)]
	v := chosenView{Back: listPath}
	if from := p.Query("from"); within(from) {
		v.Back = from
	}
	hooks, _ := deliverylog.ReadWebhooks(p)
	for _, id := range ids {
		var d deliveries.Delivery
		if err := p.API.Get(console.Path("v1", "deliveries", id), nil, &d); err != nil {
			return err
		}
		v.Rows = append(v.Rows, row{d, hooks.Of(d.WebhookID).Name()})
		if d.Status == domain.StatusPending { // an attempt may be under way, and the API would refuse
			v.InFlight++
			continue
		}
		v.IDs = append(v.IDs, id)
		if d.Status == domain.StatusDelivered {
			v.Delivered++
		}
	}
	return p.Show("chosen.html", "Send the chosen again", v)
}

// sendChosen sends some deliveries again. One that can't be sent now does not stop the others.
func sendChosen(p *console.Page) error {
	form, err := p.Form()
	if err != nil {
		return err
	}
	ids := form["id"]
	ids = ids[:min(len(ids), maxChosen)]
	sent, passed := 0, 0
	for _, id := range ids {
		err := p.API.Send(http.MethodPost, console.Path("v1", "deliveries", id, "retry"), nil, nil)
		switch f := console.NewForm(nil); {
		case err == nil:
			sent++
		case f.Failed(err) || p.API.Last().Status == http.StatusNotFound:
			passed++ // in flight, or deleted in the meantime
		default:
			return err
		}
	}
	back := listPath
	if to := form.Get("back"); within(to) {
		back = to
	}
	message := fmt.Sprintf("%d sent again.", sent)
	if passed > 0 {
		message += fmt.Sprintf(" %d could not be sent: an attempt was in flight.", passed)
	}
	return p.Done(message, back)
}
