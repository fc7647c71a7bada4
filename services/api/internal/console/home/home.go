// Package home has the console's first page: how the account's deliveries are doing, the problems, and the steps to the
// first delivery.
package home

import (
	"cmp"
	"embed"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"waybill.dev/services/api/internal/console"
	"waybill.dev/services/api/internal/console/deliverylog"
	"waybill.dev/services/api/internal/console/words"
	"waybill.dev/services/api/internal/families/deliveries"
	"waybill.dev/services/api/internal/families/expiring"
	"waybill.dev/services/api/internal/families/insight"
	"waybill.dev/services/api/internal/families/receivers"
	"waybill.dev/services/api/internal/families/sample"
	"waybill.dev/services/api/internal/families/webhooks"
	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/shared/domain"
)

//go:embed templates/*.html
var files embed.FS

// Module returns the pages.
func Module() console.Module {
	return console.Module{
		Name: "home", Templates: files,
		Routes: []console.Route{
			{Method: http.MethodGet, Path: "/console", Handle: show},
			{Method: http.MethodGet, Path: "/console/find", Static: true, Handle: find},
			{Method: http.MethodPost, Path: "/console/sample", Handle: send},
		},
		Nav: []console.NavEntry{{Label: "Home", Path: "/console", Icon: "home", Order: console.OrderHome, Key: "h"}},
	}
}

// trouble is a webhook with a problem.
type trouble struct {
	ID          domain.WebhookID
	Name        string
	State       receivers.State
	Word, Cause string
	Hour        receivers.Window
	Waiting     int
	Again       string // path to send all failed deliveries again; empty: that would not help, or the key may not
}

// span is a time up to now that is shown.
type span struct {
	Name, Label, Last, Unit, Path string // Last is the text after “the last”
	Current                       bool
	step                          time.Duration
	steps                         int
}

// spans returns the choices of spans.
func spans() []span {
	return []span{
		{Name: "1h", Label: "1 hour", Last: "hour", Unit: "minute", step: time.Minute, steps: 60},
		{Name: "24h", Label: "24 hours", Last: "24 hours", Unit: "hour", step: time.Hour, steps: deliverylog.Hours},
		{Name: "7d", Label: "7 days", Last: "7 days", Unit: "hour", step: time.Hour, steps: 7 * 24},
	}
}

// figures are the numbers of the span.
type figures struct {
	Events, Attempts, Succeeded, Failed int64
	Rate                                *float64           // success rate of attempts; nil: there were none
	Latency                             *receivers.Latency // latency of the last step with attempts
}

type view struct {
	Account    string
	Figures    figures
	Bars       console.Bars
	NoFigures  *console.Problem // the reason why figures are missing
	Spans      []span
	Span       span
	Troubles   []trouble
	Quiet      int              // problems that are acknowledged or muted
	NoTroubles *console.Problem // the reason why troubles are missing
	Waiting    int              // deliveries that have not come to their end
	Oldest     *receivers.Oldest
	Over       bool // there may be more failed deliveries, and an older one
	Failed     []failure
	NoFailed   *console.Problem
	Ends       int     // number of things that expire within 14 days
	FirstEnd   *string // the first expiry
	First      bool    // no delivery has been made yet
	HasWebhook bool
	HasEvent   bool
	MayPublish bool
	MayMake    bool
	Types      []console.Option
	// Available pages of other packages.
	Deliveries, NewWebhook, Events bool
}

// failure is a delivery that failed for good, with the name of its webhook.
type failure struct {
	deliveries.Delivery

	Webhook string
}

// few is how many of a list are shown here.
const few = 5

func show(p *console.Page) error {
	v := view{
		Types: console.Choices("", domain.EventTypes()...)[1:], Account: p.Account(), MayPublish: p.May(domain.ScopeEventsWrite), MayMake: p.May(domain.ScopeWebhooksWrite),
		Deliveries: p.Has("/console/deliveries"), Events: p.Has("/console/events"), NewWebhook: p.Has("/console/webhooks/new"),
	}
	v.choose(p)
	var rows insight.Statistics
	since := p.Now().UTC().Truncate(v.Span.step).Add(time.Duration(1-v.Span.steps) * v.Span.step)
	if v.NoFigures = p.API.Try("/v1/statistics", url.Values{"step": {v.Span.Unit}, "since": {since.Format(time.RFC3339)}}, &rows); v.NoFigures == nil {
		v.Figures, v.Bars = reckon(rows.Data, p.Now(), &v.Span)
		p.CLI("statistics --step " + v.Span.Unit)
	}
	hooks := v.troubles(p)
	var failed deliverylog.Page
	// Tests are left out: a receiver that refuses a forged one is good.
	v.NoFailed = p.API.Try("/v1/deliveries", url.Values{"status": {"failed"}, "test": {"false"}, "limit": {strconv.Itoa(few)}}, &failed)
	for _, d := range failed.Data {
		v.Failed = append(v.Failed, failure{d, hooks.Of(d.WebhookID).Name()})
	}
	v.ends(p)
	v.first(p)
	return p.Show("home.html", "Home", v)
}

// ends counts the things that expire soon. If they can't be read, the page of problems says why.
func (v *view) ends(p *console.Page) {
	var soon expiring.List[expiring.Ending]
	if p.Has("/console/problems") && p.API.Try("/v1/expiring", nil, &soon) == nil && len(soon.Data) > 0 {
		v.Ends, v.FirstEnd = len(soon.Data), soon.Data[0].ExpiresAt
	}
}

// first finds the missing steps to the first delivery.
func (v *view) first(p *console.Page) {
	if v.Figures.Succeeded > 0 {
		v.HasEvent = true
		return
	}
	var delivered deliverylog.Page
	if p.API.Try("/v1/deliveries", url.Values{"status": {"delivered"}, "limit": {"1"}}, &delivered) != nil {
		return // can't be found out
	}
	if v.First = len(delivered.Data) == 0; !v.First {
		return
	}
	var events web.CursorPage[jsontext.Value]
	v.HasEvent = p.API.Try("/v1/events", url.Values{"limit": {"1"}}, &events) == nil && len(events.Data) > 0
}

// reckon sums up the span, and adds the empty steps.
func reckon(rows []insight.Row, now time.Time, of *span) (figures, console.Bars) {
	var f figures
	latest := ""
	for i := range rows {
		r := &rows[i]
		f.Events += web.Value(r.Events)
		f.Attempts += r.Attempts
		f.Succeeded += r.Succeeded
		f.Failed += r.Failed
		if start := web.Value(r.Start); r.Attempts > 0 && start > latest {
			latest, f.Latency = start, r.LatencyMs
		}
	}
	if f.Attempts > 0 {
		rate := float64(f.Succeeded) / float64(f.Attempts)
		f.Rate = &rate
	}
	return f, deliverylog.BarsOf("Attempts by the "+of.Unit+", the last "+of.Last, rows, now, of.step, of.steps)
}

// choose sets the span that the query names; the default is 24 hours.
func (v *view) choose(p *console.Page) {
	v.Spans = spans()
	chosen := slices.IndexFunc(v.Spans, func(s span) bool { return s.Name == p.Query("range") })
	if chosen < 0 {
		chosen = 1
	}
	for i := range v.Spans {
		v.Spans[i].Path, v.Spans[i].Current = "/console?range="+v.Spans[i].Name, i == chosen
	}
	v.Span = v.Spans[chosen]
}

// counted is the number of webhooks whose waiting deliveries are counted.
const counted = 100

// troubles finds the webhooks with problems, the worst first, and counts the waiting deliveries. It returns the webhooks that
// were looked at.
func (v *view) troubles(p *console.Page) (all deliverylog.Webhooks) {
	var found, some []webhooks.Webhook
	if v.NoTroubles = p.API.Try("/v1/webhooks", url.Values{"include": {"health"}, "troubled": {"true"}, "limit": {strconv.Itoa(counted)}}, &found); v.NoTroubles != nil {
		return nil
	}
	v.Over = p.API.Last().Header.Get("Link") != ""
	if p.API.Try("/v1/webhooks", url.Values{"include": {"health"}, "limit": {strconv.Itoa(counted)}}, &some) == nil {
		total, _ := strconv.Atoi(p.API.Last().Header.Get("X-Total-Count"))
		v.HasWebhook, v.Over = len(some) > 0, v.Over || total > len(some)
	}
	seen := make(map[domain.WebhookID]bool)
	for i, w := range slices.Concat(found, some) {
		all = append(all, deliverylog.Webhook{Webhook: w})
		if w.Health == nil || seen[w.ID] {
			continue
		}
		seen[w.ID] = true
		v.Waiting += w.Health.Undelivered()
		if o := w.Health.Oldest; o != nil && (v.Oldest == nil || o.DeliveryID < v.Oldest.DeliveryID) {
			v.Oldest = o
		}
		if of := w.Health.Problem; of != nil && of.Quiet {
			v.Quiet++
		} else if i < len(found) {
			v.Troubles = append(v.Troubles, troubleOf(p, w))
		}
	}
	slices.SortStableFunc(v.Troubles, func(a, b trouble) int {
		return cmp.Or(slices.Index(receivers.States(), a.State)-slices.Index(receivers.States(), b.State), cmp.Compare(b.Hour.Failed, a.Hour.Failed))
	})
	v.Troubles = v.Troubles[:min(few, len(v.Troubles))]
	return all
}

func troubleOf(p *console.Page, w webhooks.Webhook) trouble {
	h := w.Health
	t := trouble{
		ID: w.ID, Name: deliverylog.Webhook{Webhook: w}.Name(), State: h.State, Word: words.State(h.State),
		Hour: h.Windows["1h"], Waiting: h.Undelivered(),
	}
	for _, a := range h.Answers {
		if a.Class != domain.ClassOK {
			t.Cause = words.Answer(a)
			break
		}
	}
	if h.State == receivers.Inactive {
		t.Cause = words.Disabled(w.DisabledReason)
	} else if p.May(domain.ScopeEventsWrite) && p.Has("/console/deliveries/send-again") {
		t.Again = "/console/deliveries/send-again?" + url.Values{"webhookId": {string(w.ID)}}.Encode()
	}
	return t
}

// send publishes a sample event, like any client by POST /v1/events.
func send(p *console.Page) error {
	form, err := p.Form()
	if err != nil {
		return err
	}
	kind := domain.EventType(form.Get("type"))
	if !kind.Valid() {
		kind = domain.ShipmentDelivered
	}
	now := p.Now().UTC()
	var accepted deliverylog.Accepted
	err = p.API.Send(http.MethodPost, "/v1/events", struct {
		Type      domain.EventType `json:"type"`
		Timestamp string           `json:"timestamp"`
		Data      jsontext.Value   `json:"data"`
	}{kind, now.Format("2006-01-02T15:04:05.000Z07:00"), sample.Data(kind, now)}, &accepted)
	if err != nil {
		return err
	}
	if len(accepted.Events) == 1 && p.Has("/console/events/{eventId}") {
		return p.Done("The sample is accepted.", console.Path("console", "events", accepted.Events[0].ID))
	}
	return p.Done("The sample is accepted.", "/console")
}

type findView struct {
	Text string
	Hits []console.Hit
	More bool // there are more hits
}

// find redirects to the page of an id: an event, a delivery, a webhook, or else a shipment. For any other text it lists
// the hits for its words.
func find(p *console.Page) error {
	text := strings.TrimSpace(p.Query("q"))
	_, delivery := domain.DeliveryID(text).ReceivedAt()
	_, none := domain.ParseWebhookID(text)
	for _, kind := range []struct {
		list, page string
		may        bool // the text has the form of this kind of id
	}{
		{"deliveries", "/console/deliveries/{deliveryId}", delivery}, {"events", "/console/events/{eventId}", domain.ValidEventID(text)},
		{"webhooks", "/console/webhooks/{webhookId}", none == nil},
	} {
		if kind.may && p.Has(kind.page) && p.API.Try(console.Path("v1", kind.list, text), nil, nil) == nil {
			return p.Redirect(console.Path("console", kind.list, text))
		}
	}
	if text != "" && p.Has("/console/shipments/{shipmentId}") {
		var of web.CursorPage[jsontext.Value]
		if p.API.Try("/v1/events", url.Values{"shipmentId": {text}, "limit": {"1"}}, &of) == nil && len(of.Data) > 0 {
			return p.Redirect(console.Path("console", "shipments", text))
		}
	}
	v := findView{Text: text}
	v.Hits, v.More = p.Find(text)
	return p.Show("find.html", "Find", v)
}
