package webhooks

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"waybill.dev/services/api/internal/console"
	"waybill.dev/services/api/internal/console/words"
	"waybill.dev/shared/domain"
)

// health is how a webhook's receiver is doing, as the API shows it.
type health struct {
	State         string            `json:"state"`
	Circuit       circuit           `json:"circuit"`
	Windows       map[string]window `json:"windows"`
	Waiting       int               `json:"waiting"`
	Held          int               `json:"held"`
	Scheduled     int               `json:"scheduled"`
	LastSuccessAt *string           `json:"lastSuccessAt"`
	LastFailureAt *string           `json:"lastFailureAt"`
	InactiveFrom  *string           `json:"inactiveFrom"`
	Answers       []lastAnswer      `json:"answers"`
}

type circuit struct {
	Open          bool    `json:"open"`
	Since         *string `json:"since"`
	FailuresInRow int     `json:"failuresInARow"`
	NextProbeAt   *string `json:"nextProbeAt"`
}

type window struct {
	Attempts    int            `json:"attempts"`
	Succeeded   int            `json:"succeeded"`
	Failed      int            `json:"failed"`
	SuccessRate *float64       `json:"successRate"`
	LatencyMs   latency        `json:"latencyMs"`
	Classes     map[string]int `json:"classes"`
}

type latency struct {
	P50 *float64 `json:"p50"`
	P95 *float64 `json:"p95"`
	P99 *float64 `json:"p99"`
}

type lastAnswer struct {
	At         *string `json:"at"`
	StatusCode int     `json:"statusCode"`
	Class      string  `json:"class"`
	Body       string  `json:"body"`
}

// Text is the answer in short: its code, or what came instead of one.
func (a lastAnswer) Text() string {
	if a.StatusCode != 0 {
		return strconv.Itoa(a.StatusCode)
	}
	return words.Class(a.Class)
}

// state is the badge of the state that the API tells.
func (w *webhook) state() state {
	if w.Health == nil {
		return state{}
	}
	text := words.State(w.Health.State)
	if w.Health.State == "inactive" {
		text += ": " + words.Disabled(w.DisabledReason)
	}
	return state{w.Health.State, text}
}

// named is a window with its name.
type named struct {
	window

	Name string
}

// classRow is how many attempts ended in one way, in each window.
type classRow struct {
	Class, Name string
	Counts      []int
}

type healthView struct {
	head

	Health   health
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
		v.Webhook.Health = &v.Health
		v.State = v.Webhook.state()
		v.arrange()
		p.CLI("webhooks health " + h.Webhook.ID)
	}
	var hours statistics
	if v.NoBars = p.API.Try("/v1/statistics", url.Values{"step": {"hour"}, "webhookId": {h.Webhook.ID}}, &hours); v.NoBars == nil {
		v.Bars = bars(hours.Data, p.Now())
	}
	return p.Show("health.html", h.title("health"), &v)
}

// arrange makes the tables of the page: a column for each window, and a row for each class of
// attempts that one of them has.
func (v *healthView) arrange() {
	for _, w := range []struct{ key, name string }{{"1h", "1 hour"}, {"24h", "24 hours"}, {"7d", "7 days"}} {
		v.Windows = append(v.Windows, named{v.Health.Windows[w.key], w.name})
	}
	for _, class := range domain.Classes() {
		r := classRow{Class: string(class), Name: words.Class(string(class))}
		for i := range v.Windows {
			r.Counts = append(r.Counts, v.Windows[i].Classes[r.Class])
		}
		if slices.Max(r.Counts) > 0 {
			v.Classes = append(v.Classes, r)
		}
	}
	v.Open = v.Health.Waiting+v.Health.Held+v.Health.Scheduled > 0
}

func bars(steps []step, now time.Time) console.Bars {
	b := console.Bars{Label: "Attempts an hour, the last 24 hours", Good: "succeeded", Bad: "failed", Points: make([]console.Point, hours24)}
	first := firstHour(now)
	for i := range b.Points {
		b.Points[i].Start = first.Add(time.Duration(i) * time.Hour)
	}
	for _, s := range steps {
		if at := int(s.Start.Sub(first) / time.Hour); !s.Start.Before(first) && at < hours24 {
			b.Points[at].Good += s.Succeeded
			b.Points[at].Bad += s.Failed
		}
	}
	return b
}

// delivery is one as the API's lists show it.
type delivery struct {
	ID            string    `json:"id"`
	WebhookID     string    `json:"webhookId"`
	EventID       string    `json:"eventId"`
	EventType     string    `json:"eventType"`
	Status        string    `json:"status"`
	AttemptCount  int       `json:"attemptCount"`
	NextAttemptAt *string   `json:"nextAttemptAt"`
	Reason        string    `json:"reason"`
	Test          bool      `json:"test"`
	CreatedAt     string    `json:"createdAt"`
	UpdatedAt     string    `json:"updatedAt"`
	Attempts      []attempt `json:"attempts"`
}

type attempt struct {
	Number       int    `json:"number"`
	StartedAt    string `json:"startedAt"`
	DurationMs   int    `json:"durationMs"`
	Status       int    `json:"status"`
	Error        string `json:"error"`
	ResponseBody string `json:"responseBody"`
	Class        string `json:"class"`
}

// OK reports whether the receiver has taken the callback.
func (a attempt) OK() bool { return a.Status >= 200 && a.Status < 300 }

type deliveriesView struct {
	head

	Form                *console.Form
	Statuses, Types     []console.Option
	Filtered            bool
	Deliveries          []delivery
	Paging              console.Paging
	None                *console.Problem // why there is no list
	All                 string           // the list of all webhooks' deliveries; empty: there is none
	OneEvent, OneDelive bool             // there are pages of them
}

func showDeliveries(p *console.Page) error {
	h, err := read(p, "deliveries")
	if err != nil {
		return err
	}
	filter := p.Pick("status", "eventType", "since", "until")
	v := deliveriesView{
		head: h, Form: console.NewForm(filter), Filtered: len(filter) > 0,
		Statuses: options("Any status", "pending", "delivered", "retrying", "failed", "held"), Types: options("Any type", names(domain.WebhookTypes())...),
		OneEvent: p.Has("/console/events/{eventId}"), OneDelive: p.Has("/console/deliveries/{deliveryId}"),
	}
	if p.Has("/console/deliveries") {
		v.All = "/console/deliveries?" + url.Values{"webhookId": {h.Webhook.ID}}.Encode()
	}
	query := p.Pick("status", "eventType", "since", "until", "cursor")
	query.Set("webhookId", h.Webhook.ID)
	query.Set("limit", "50")
	var answer struct {
		Data       []delivery `json:"data"`
		NextCursor *string    `json:"nextCursor"`
	}
	if v.None = p.API.Try("/v1/deliveries", query, &answer); v.None == nil {
		v.Deliveries, v.Paging = answer.Data, p.Paging(answer.NextCursor)
	} else {
		v.Form.Failed(v.None)
	}
	p.CLI(strings.TrimSpace("deliveries list --webhook " + h.Webhook.ID))
	return p.Show("deliveries.html", h.title("deliveries"), v)
}

// options are values to choose from, after one that stands for all.
func options(all string, values ...string) []console.Option {
	list := []console.Option{{Value: "", Label: all}}
	for _, value := range values {
		list = append(list, console.Option{Value: value, Label: value})
	}
	return list
}
