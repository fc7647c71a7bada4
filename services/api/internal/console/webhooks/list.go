package webhooks

import (
	"net/url"
	"strconv"

	"waybill.dev/services/api/internal/console"
	"waybill.dev/services/api/internal/console/deliverylog"
	"waybill.dev/services/api/internal/insight"
	"waybill.dev/services/api/internal/receivers"
	"waybill.dev/shared/domain"
)

// perPage is how many webhooks a page of the list has.
const perPage = 25

// row is a webhook in the list.
type row struct {
	Webhook webhook
	Name    string
	State   state
	Hour    receivers.Window
	Line    console.Line
	Waiting int
	Answer  string
	MaySend bool
}

type listView struct {
	Rows    []row
	Paging  console.Paging
	Total   int
	None    bool // there is no webhook at all
	MayMake bool
}

func list(p *console.Page) error {
	offset, _ := strconv.Atoi(p.Query("offset"))
	offset = max(0, offset)
	query := url.Values{"limit": {strconv.Itoa(perPage)}, "offset": {strconv.Itoa(offset)}, "include": {"health"}}
	var found []webhook
	if err := p.API.Get("/v1/webhooks", query, &found); err != nil {
		return err
	}
	p.CLI("webhooks list")
	v := listView{MayMake: p.May(domain.ScopeWebhooksWrite)}
	v.Total, _ = strconv.Atoi(p.API.Last().Header.Get("X-Total-Count"))
	v.None = v.Total == 0 && len(found) == 0
	v.Paging = p.Offsets(offset, len(found), v.Total)
	for i := range found {
		r := row{Webhook: found[i], Name: found[i].short(maxRow), State: found[i].state(), MaySend: p.May(domain.ScopeEventsWrite)}
		r.health()
		v.Rows = append(v.Rows, r)
	}
	if len(found) > 0 {
		v.lines(p)
	}
	return p.Show("list.html", "Webhooks", v)
}

// health takes what the row shows of the webhook's health.
func (r *row) health() {
	h := r.Webhook.Health
	if h == nil {
		return
	}
	r.Hour, r.Waiting = h.Windows["1h"], h.Waiting+h.Held+h.Scheduled
	if len(h.Answers) > 0 {
		r.Answer = answer{h.Answers[0]}.Text()
	}
}

// lines draws the attempts of the last 24 hours of each webhook.
func (v *listView) lines(p *console.Page) {
	var hours insight.Statistics
	if p.API.Try("/v1/statistics", url.Values{"step": {"hour"}, "by": {"webhook"}}, &hours) != nil {
		return // too many webhooks for one answer, or no right: the figures stand without
	}
	rows := map[domain.WebhookID]*row{}
	for i := range v.Rows {
		v.Rows[i].Line = console.Line{Label: "Attempts an hour, the last 24 hours", Values: make([]float64, deliverylog.Hours)}
		rows[v.Rows[i].Webhook.ID] = &v.Rows[i]
	}
	for _, s := range hours.Data {
		if hour, ok := deliverylog.Hour(&s, p.Now()); ok && rows[s.WebhookID] != nil {
			rows[s.WebhookID].Line.Values[hour] += float64(s.Attempts)
		}
	}
}
