package webhooks

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	"waybill.dev/services/api/internal/console"
	"waybill.dev/services/api/internal/console/deliverylog"
	"waybill.dev/services/api/internal/console/words"
	"waybill.dev/services/api/internal/families/deliveries"
	"waybill.dev/services/api/internal/families/insight"
	"waybill.dev/services/api/internal/families/receivers"
	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/shared/domain"
)

// answer is the receiver's answer to an attempt.
type answer struct{ receivers.Answer }

// Text returns the answer in short: its code, or the error.
func (a answer) Text() string {
	if a.StatusCode != 0 {
		return strconv.Itoa(a.StatusCode)
	}
	return words.Class(a.Class)
}

// state returns the badge for the webhook's state.
func (w *webhook) state() state {
	if w.Health == nil {
		return state{}
	}
	text := words.State(w.Health.State)
	if w.Health.State == receivers.Inactive {
		text += ": " + words.Disabled(w.DisabledReason)
	}
	return state{string(w.Health.State), text}
}

// named is a window with its name.
type named struct {
	receivers.Window

	Name string
}

// classRow is the number of attempts with a class, in each window.
type classRow struct {
	Class  domain.Class
	Name   string
	Counts []int64
}

type healthView struct {
	head

	Health   receivers.Health
	Answers  []answer
	NoHealth *console.Problem
	Windows  []named
	Classes  []classRow
	Bars     console.Bars
	NoBars   *console.Problem
	Open     bool // some deliveries are not through
}

func showHealth(p *console.Page) error {
	h, err := read(p, "health")
	if err != nil {
		return err
	}
	v := healthView{head: h}
	if v.NoHealth = p.API.Try(console.Path("v1", "webhooks", h.Webhook.ID, "health"), nil, &v.Health); v.NoHealth == nil {
		v.arrange()
		p.CLI("webhooks health " + string(h.Webhook.ID))
	}
	var hours insight.Statistics
	if v.NoBars = p.API.Try("/v1/statistics", url.Values{"step": {"hour"}, "webhookId": {string(h.Webhook.ID)}}, &hours); v.NoBars == nil {
		v.Bars = deliverylog.Bars(hours.Data, p.Now())
	}
	return p.Show("health.html", h.title("health"), &v)
}

// arrange makes the tables of the page: a column for each window, and a row for each class that
// occurs.
func (v *healthView) arrange() {
	for _, w := range []struct{ key, name string }{{"1h", "1 hour"}, {"24h", "24 hours"}, {"7d", "7 days"}} {
		v.Windows = append(v.Windows, named{v.Health.Windows[w.key], w.name})
	}
	for _, class := range domain.Classes() {
		r := classRow{Class: class, Name: words.Class(class)}
		for i := range v.Windows {
			r.Counts = append(r.Counts, v.Windows[i].Classes[class])
		}
		if slices.Max(r.Counts) > 0 {
			v.Classes = append(v.Classes, r)
		}
	}
	v.Answers = web.Views(v.Health.Answers, func(a receivers.Answer) answer { return answer{a} })
	v.Open = v.Health.Undelivered() > 0
}

type deliveriesView struct {
	head

	Form            *console.Form
	Statuses, Types []console.Option
	Range           console.Range
	Filtered        bool
	Deliveries      []deliveries.Delivery
	Paging          console.Paging
	None            *console.Problem // the reason why there is no list
	All             string           // path of the list of all deliveries; empty: none
	OneDelive       bool             // the page of a delivery is available
}

func showDeliveries(p *console.Page) error {
	h, err := read(p, "deliveries")
	if err != nil {
		return err
	}
	query, form := p.Filters("status", "eventType", "since", "until")
	v := deliveriesView{
		head: h, Form: form, Range: p.Range(form, "since", "until"), Filtered: len(query) > 0,
		Statuses: console.Choices("any", "pending", "delivered", "retrying", "failed", "held"), Types: console.Choices("any", domain.WebhookTypes()...),
		OneDelive: p.Has("/console/deliveries/{deliveryId}"),
	}
	if p.Has("/console/deliveries") {
		v.All = "/console/deliveries?" + url.Values{"webhookId": {string(h.Webhook.ID)}}.Encode()
	}
	if cursor := p.Query("cursor"); cursor != "" {
		query.Set("cursor", cursor)
	}
	query.Set("webhookId", string(h.Webhook.ID))
	query.Set("limit", "50")
	var answer deliverylog.Page
	if v.None = p.API.Try("/v1/deliveries", query, &answer); v.None == nil {
		v.Deliveries, v.Paging = answer.Data, p.Paging(answer.NextCursor)
	} else {
		v.Form.Failed(v.None)
	}
	p.CLI(strings.TrimSpace("deliveries list --webhook " + string(h.Webhook.ID)))
	return p.Show("deliveries.html", h.title("deliveries"), v)
}
