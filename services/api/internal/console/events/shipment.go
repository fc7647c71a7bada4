package events

import (
	"cmp"
	"net/url"
	"slices"
	"strconv"
	"time"

	"waybill.dev/services/api/internal/console"
	"waybill.dev/services/api/internal/console/deliverylog"
	"waybill.dev/services/api/internal/families/deliveries"
	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/shared/domain"
)

type shipmentView struct {
	ID       string
	Events   []event // in the order of their acceptance
	Lanes    []lane
	Arrivals []arrival // of all lanes, in the order of the events
	Begin    time.Time
	End      time.Time
	Length   string // length of the time axis
	Ticks    []mark
	Unread   *console.Problem // why deliveries are not shown
	More     bool             // there are more than are shown
	MayRetry bool
	Webhooks bool // the pages of webhooks are available
	Again    string
}

// lane shows the shipment's events at one webhook: a line on the common time axis.
type lane struct {
	Webhook  deliverylog.Webhook
	Arrivals []arrival
	Late     int // number of overtaken deliveries
	Again    string
}

// arrival is a delivery of the lane.
type arrival struct {
	deliveries.Delivery

	Webhook deliverylog.Webhook
	// Overtaken is the type of a later event that arrived before this one; empty: none.
	Overtaken domain.EventType
	Mark      mark
}

// mark is a place on the time axis, in percent, and where its line begins.
type mark struct{ From, To, Title string }

const (
	// maxEvents bounds how many events of a shipment are shown, the newest.
	maxEvents = "200"
	// maxLanes bounds how many webhooks are shown.
	maxLanes = 40
)

func shipment(p *console.Page) error {
	id := p.Param("shipmentId")
	v := shipmentView{ID: id, MayRetry: p.May(domain.ScopeEventsWrite), Webhooks: p.Has("/console/webhooks/{webhookId}"), Again: againPath + "?" + url.Values{"shipmentId": {id}}.Encode()}
	var page eventPage
	if err := p.API.Get("/v1/events", url.Values{"shipmentId": {id}, "limit": {maxEvents}}, &page); err != nil {
		return err
	}
	p.CLI(cli(url.Values{"shipmentId": {id}}))
	v.Events, v.More = page.Data, page.NextCursor != nil
	slices.Reverse(v.Events)
	var sent deliverylog.Page
	v.Unread = p.API.Try("/v1/deliveries", url.Values{"shipmentId": {id}, "limit": {"1000"}}, &sent)
	v.More = v.More || sent.NextCursor != nil
	hooks, _ := deliverylog.ReadWebhooks(p)
	v.span(sent.Data)
	v.lanes(sent.Data, hooks)
	return p.Show("shipment.html", "Shipment "+console.Visible(id), v)
}

// span finds the ends of the axis.
func (v *shipmentView) span(sent []deliveries.Delivery) {
	note := func(stamp *string) {
		t := web.Time(stamp)
		if t.IsZero() {
			return
		}
		if v.Begin.IsZero() || t.Before(v.Begin) {
			v.Begin = t
		}
		if t.After(v.End) {
			v.End = t
		}
	}
	for _, e := range v.Events {
		note(&e.ReceivedAt)
	}
	for _, d := range sent {
		note(d.UpdatedAt)
	}
	v.Length = console.Offset(v.End.Sub(v.Begin))
	for _, e := range v.Events {
		v.Ticks = append(v.Ticks, mark{To: v.at(&e.ReceivedAt), Title: console.Visible(e.Type) + " accepted " + v.when(&e.ReceivedAt)})
	}
}

// at returns the place of a time on the axis, in percent.
func (v *shipmentView) at(stamp *string) string {
	t := web.Time(stamp)
	whole := v.End.Sub(v.Begin)
	if t.IsZero() || whole <= 0 {
		return "1%"
	}
	return strconv.FormatFloat(1+98*float64(t.Sub(v.Begin))/float64(whole), 'f', 2, 64) + "%"
}

// when says a time, and how long after the beginning of the axis that is.
func (v *shipmentView) when(stamp *string) string {
	return console.Offset(web.Time(stamp).Sub(v.Begin)) + ", " + console.Clock(stamp)
}

// lanes groups deliveries by webhook, and finds those that arrived out of order.
func (v *shipmentView) lanes(sent []deliveries.Delivery, hooks deliverylog.Webhooks) {
	of := map[domain.WebhookID][]deliveries.Delivery{}
	var order []domain.WebhookID
	for _, d := range slices.Backward(sent) {
		if of[d.WebhookID] == nil {
			order = append(order, d.WebhookID)
		}
		of[d.WebhookID] = append(of[d.WebhookID], d)
	}
	v.More = v.More || len(order) > maxLanes
	for _, id := range order[:min(len(order), maxLanes)] {
		l := lane{Webhook: hooks.Of(id), Again: againPath + "?" + url.Values{"shipmentId": {v.ID}, "webhookId": {string(id)}, "status": {"all"}}.Encode()}
		list := of[id]
		slices.SortStableFunc(list, func(a, b deliveries.Delivery) int { return cmp.Compare(web.Value(a.CreatedAt), web.Value(b.CreatedAt)) })
		for i, d := range list {
			a := arrival{Delivery: d, Webhook: l.Webhook, Overtaken: overtaken(list, i), Mark: mark{v.at(d.CreatedAt), v.at(d.UpdatedAt), console.Visible(d.EventType) + " " + string(d.Status) + " " + v.when(d.UpdatedAt)}}
			if a.Overtaken != "" {
				l.Late++
			}
			l.Arrivals = append(l.Arrivals, a)
		}
		v.Lanes = append(v.Lanes, l)
		v.Arrivals = append(v.Arrivals, l.Arrivals...)
	}
	slices.SortStableFunc(v.Arrivals, func(a, b arrival) int { return cmp.Compare(web.Value(a.CreatedAt), web.Value(b.CreatedAt)) })
}

// overtaken returns the type of an event that was accepted after the i-th and arrived before it.
func overtaken(list []deliveries.Delivery, i int) domain.EventType {
	for _, later := range list[i+1:] {
		if later.Status == domain.StatusDelivered && (list[i].Status != domain.StatusDelivered || web.Value(later.UpdatedAt) < web.Value(list[i].UpdatedAt)) {
			return later.EventType
		}
	}
	return ""
}
