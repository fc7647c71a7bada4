package webhooks

import (
	"cmp"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"waybill.dev/services/api/internal/console"
	"waybill.dev/services/api/internal/console/deliverylog"
	"waybill.dev/services/api/internal/console/words"
	"waybill.dev/services/api/internal/families/insight"
	"waybill.dev/services/api/internal/families/receivers"
	"waybill.dev/shared/domain"
)

const (
	// perPage is how many webhooks a page of the list has.
	perPage = 100
	// mostSearched is how many webhooks are read to filter or sort the list.
	mostSearched = 1000
)

// row is a webhook in the list.
type row struct {
	Webhook webhook
	Name    string // its description, or its address if it has none
	Address string // set if there is a description, too
	Types   string
	State   state
	Hour    receivers.Window
	Line    console.Line
	Waiting int
	Answer  string
	MaySend bool
}

// column is a column by which the list can be sorted.
type column struct {
	Label, Class, Path string
	Sorted             bool
}

type listView struct {
	Form     *console.Form
	Types    []console.Option
	States   []console.Option
	Sort     string
	Columns  []column
	Rows     []row
	Paging   console.Paging
	Total    int  // 0: not known, as the list is filtered
	Cut      bool // there are more webhooks than were read
	Filtered bool
	None     bool // the account has no webhooks
	MayMake  bool
}

func list(p *console.Page) error {
	filter := p.Pick("q", "type", "state")
	v := listView{Form: console.NewForm(filter), Filtered: len(filter) > 0, Sort: p.Query("sort"), MayMake: p.May(domain.ScopeWebhooksWrite)}
	v.Types, v.States = typeChoices(), stateOptions()
	v.columns(p)
	p.CLI("webhooks list")
	var err error
	if v.Filtered || v.Sort != "" {
		err = v.search(p)
	} else {
		err = v.page(p)
	}
	if err != nil {
		return err
	}
	if len(v.Rows) > 0 {
		v.lines(p)
	}
	return p.Show("list.html", "Webhooks", v)
}

// page reads a page of the list in the API's order. On the first page, webhooks with problems come
// first.
func (v *listView) page(p *console.Page) error {
	offset := offsetOf(p)
	var troubled, found []webhook
	if err := p.API.Get("/v1/webhooks", url.Values{"include": {"health"}, "troubled": {"true"}, "limit": {strconv.Itoa(perPage)}}, &troubled); err != nil {
		return err
	}
	if err := p.API.Get("/v1/webhooks", url.Values{"limit": {strconv.Itoa(perPage)}, "offset": {strconv.Itoa(offset)}, "include": {"health"}}, &found); err != nil {
		return err
	}
	v.Total, _ = strconv.Atoi(p.API.Last().Header.Get("X-Total-Count"))
	v.None = v.Total == 0 && len(found) == 0
	v.Paging = p.Offsets(offset, len(found), v.Total)
	first := make(map[domain.WebhookID]bool, len(troubled))
	for i := range troubled {
		first[troubled[i].ID] = true
	}
	found = slices.DeleteFunc(found, func(w webhook) bool { return first[w.ID] })
	if offset == 0 {
		slices.SortStableFunc(troubled, func(a, b webhook) int { return worst(&a) - worst(&b) })
		v.add(p, troubled)
	}
	v.add(p, found)
	return nil
}

// search reads the account's webhooks, up to a limit, and shows a page of those that match.
func (v *listView) search(p *console.Page) error {
	var found []webhook
	if err := p.API.Get("/v1/webhooks", url.Values{"limit": {strconv.Itoa(mostSearched)}, "include": {"health"}}, &found); err != nil {
		return err
	}
	total, _ := strconv.Atoi(p.API.Last().Header.Get("X-Total-Count"))
	v.Cut = total > len(found)
	text, eventType, state := strings.ToLower(v.Form.Values.Get("q")), domain.EventType(v.Form.Values.Get("type")), receivers.State(v.Form.Values.Get("state"))
	found = slices.DeleteFunc(found, func(w webhook) bool {
		return !strings.Contains(strings.ToLower(w.Description+" "+w.bare()+" "+string(w.ID)), text) || eventType != "" && !slices.Contains(w.Events, eventType) || state != "" && w.known() != state
	})
	slices.SortStableFunc(found, orders(v.Sort))
	offset := min(offsetOf(p), len(found))
	v.Paging = p.Offsets(offset, min(perPage, len(found)-offset), len(found))
	v.add(p, found[offset:min(offset+perPage, len(found))])
	return nil
}

func offsetOf(p *console.Page) int {
	offset, _ := strconv.Atoi(p.Query("offset"))
	return max(0, offset)
}

func (v *listView) add(p *console.Page, found []webhook) {
	for i := range found {
		w := &found[i]
		r := row{Webhook: *w, Name: cmp.Or(w.Description, w.bare()), Types: types(w.Events), State: w.state(), MaySend: p.May(domain.ScopeEventsWrite)}
		if w.Description != "" {
			r.Address = w.bare()
		}
		r.health()
		v.Rows = append(v.Rows, r)
	}
}

// bare returns the address without its scheme.
func (w *webhook) bare() string {
	name := w.short()
	if _, rest, found := strings.Cut(name, "://"); found {
		return strings.TrimSuffix(rest, "/")
	}
	return name
}

// types returns a short text for the event types of a webhook.
func types(events []domain.EventType) string {
	all := !slices.ContainsFunc(domain.EventTypes(), func(t domain.EventType) bool { return !slices.Contains(events, t) })
	switch {
	case all && len(events) == len(domain.EventTypes()):
		return "all types"
	case all:
		return "all types and alerts"
	}
	return strings.Join(names[domain.EventType, string](events), ", ")
}

func typeChoices() []console.Option {
	list := []console.Option{{Label: "any"}}
	for _, t := range domain.EventTypes() {
		list = append(list, console.Option{Value: string(t), Label: string(t)})
	}
	return list
}

func stateOptions() []console.Option {
	list := []console.Option{{Label: "any"}}
	for _, s := range receivers.States() {
		list = append(list, console.Option{Value: string(s), Label: words.State(s)})
	}
	return list
}

// known returns the webhook's state; empty: not known.
func (w *webhook) known() receivers.State {
	if w.Health == nil {
		return ""
	}
	return w.Health.State
}

// worst returns the rank of a webhook by its state.
func worst(w *webhook) int {
	if i := slices.Index(receivers.States(), w.known()); i >= 0 {
		return i
	}
	return len(receivers.States())
}

// orders compares webhooks by a column: names as in a dictionary, figures from the worst on.
func orders(by string) func(a, b webhook) int {
	figure := func(of func(*receivers.Health) float64) func(a, b webhook) int {
		return func(a, b webhook) int { return cmp.Compare(of(b.Health), of(a.Health)) }
	}
	switch by {
	case "name":
		return func(a, b webhook) int {
			return cmp.Compare(strings.ToLower(cmp.Or(a.Description, a.bare())), strings.ToLower(cmp.Or(b.Description, b.bare())))
		}
	case "success":
		return figure(func(h *receivers.Health) float64 {
			if h == nil || h.Windows["1h"].SuccessRate == nil {
				return -1
			}
			return 1 - *h.Windows["1h"].SuccessRate
		})
	case "p95":
		return figure(func(h *receivers.Health) float64 {
			if h == nil || h.Windows["1h"].LatencyMs == nil {
				return -1
			}
			return h.Windows["1h"].LatencyMs.P95
		})
	case "waiting":
		return figure(func(h *receivers.Health) float64 {
			if h == nil {
				return -1
			}
			return float64(h.Undelivered())
		})
	}
	return func(a, b webhook) int { return worst(&a) - worst(&b) }
}

// columns sets the columns of the list.
func (v *listView) columns(p *console.Page) {
	for _, c := range []struct{ label, class, sort string }{
		{"State", "", "state"}, {"Webhook", "", "name"}, {"Types", "spare", ""}, {"Success", "num", "success"}, {"Attempts", "spare", ""},
		{"p95", "num extra", "p95"}, {"Waiting", "num extra", "waiting"}, {"Last answer", "spare", ""},
	} {
		head := column{Label: c.label, Class: c.class}
		if c.sort != "" {
			to := p.Pick("q", "type", "state")
			if head.Sorted = v.Sort == c.sort; !head.Sorted {
				to.Set("sort", c.sort)
			}
			head.Path = "?" + to.Encode()
		}
		v.Columns = append(v.Columns, head)
	}
}

// health sets the parts of the row that show the webhook's health.
func (r *row) health() {
	h := r.Webhook.Health
	if h == nil {
		return
	}
	r.Hour, r.Waiting = h.Windows["1h"], h.Undelivered()
	if len(h.Answers) > 0 {
		r.Answer = strings.TrimPrefix(answer{h.Answers[0]}.Text(), "answered ")
	}
}

// lines sets the charts of the attempts of each webhook in the last 24 hours.
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
