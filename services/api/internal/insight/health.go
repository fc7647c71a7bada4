package insight

import (
	"net/http"
	"time"

	"waybill.dev/services/api/internal/web"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/store/pipeline"
	"waybill.dev/shared/store/rollup"
)

// maxAnswers is how many of the last answers are shown.
const maxAnswers = 5

// The states of a webhook.
const (
	stateHealthy     = "healthy"
	stateFailing     = "failing"
	stateCircuitOpen = "circuitOpen"
	stateInactive    = "inactive"
	stateIdle        = "idle" // no attempt within the longest window
)

type healthView struct {
	WebhookID     domain.WebhookID      `json:"webhookId"`
	State         string                `json:"state"`
	Circuit       circuitView           `json:"circuit"`
	Windows       map[string]windowView `json:"windows"`
	Waiting       int                   `json:"waiting"`
	Held          int                   `json:"held"`
	Scheduled     int                   `json:"scheduled"`
	LastSuccessAt *string               `json:"lastSuccessAt,omitzero"`
	LastFailureAt *string               `json:"lastFailureAt,omitzero"`
	InactiveFrom  *string               `json:"inactiveFrom,omitzero"`
	Answers       []answerView          `json:"answers"`
}

type circuitView struct {
	Open          bool    `json:"open"`
	Since         *string `json:"since,omitzero"`
	FailuresInRow int     `json:"failuresInARow"`
	NextProbeAt   *string `json:"nextProbeAt,omitzero"`
}

type windowView struct {
	Attempts    int64                  `json:"attempts"`
	Succeeded   int64                  `json:"succeeded"`
	Failed      int64                  `json:"failed"`
	SuccessRate *float64               `json:"successRate"` // null: there was no attempt
	LatencyMs   *latency               `json:"latencyMs"`   // likewise
	Classes     map[domain.Class]int64 `json:"classes"`
}

type answerView struct {
	At         *string      `json:"at"`
	StatusCode int          `json:"statusCode,omitzero"`
	Class      domain.Class `json:"class"`
	Body       string       `json:"body,omitzero"`
}

// window is a time up to now that attempts are counted in.
type window struct {
	name string
	time time.Duration
}

func windows() []window {
	return []window{{"1h", time.Hour}, {"24h", 24 * time.Hour}, {"7d", 7 * 24 * time.Hour}}
}

func (h *handlers) health(c *web.Call) error {
	id := web.ID(c, domain.ParseWebhookID)
	if err := c.Check(); err != nil {
		return err
	}
	ctx, account, now := c.Context(), c.Principal.Account, time.Now()
	w, health, err := h.Webhooks.GetWebhook(ctx, account, id)
	if err != nil {
		return err
	}
	circuit, err := h.Webhooks.GetCircuit(ctx, id)
	if err != nil {
		return err
	}
	open, err := h.Webhooks.CountOpen(ctx, account, id)
	if err != nil {
		return err
	}
	answers, err := h.Webhooks.LastAnswers(ctx, id, maxAnswers)
	if err != nil {
		return err
	}
	lists, err := h.Rollups.Read(ctx, account, h.queries(id, now)...)
	if err != nil {
		return err
	}
	view := healthView{
		WebhookID: id, Circuit: viewCircuit(circuit), Windows: map[string]windowView{},
		Waiting: open.Waiting, Held: open.Held, Scheduled: open.Scheduled, InactiveFrom: h.inactiveFrom(&w, health),
	}
	for i, of := range windows() {
		view.Windows[of.name] = viewWindow(lists[i])
	}
	attempts := view.Windows[windows()[len(windows())-1].name].Attempts
	view.State = stateOf(&w, health, circuit, attempts > 0)
	view.LastSuccessAt, view.LastFailureAt = lastTimes(lists[len(lists)-1])
	if circuit.Last != nil {
		answers = pipeline.DistinctAnswers(append(answers, *circuit.Last), maxAnswers)
	}
	view.Answers = web.Views(answers, viewAnswer)
	return c.Answer(http.StatusOK, view)
}

// queries asks for each window, and for all that is kept.
func (h *handlers) queries(id domain.WebhookID, now time.Time) []rollup.Query {
	var queries []rollup.Query
	for _, of := range append(windows(), window{time: h.Retention + 24*time.Hour}) {
		// What a dispatcher with a clock ahead has recorded is of now, too.
		queries = append(queries, rollup.Query{Webhook: id, Since: now.Add(-of.time), Until: now.Add(time.Minute), By: rollup.ByClass})
	}
	return queries
}

func stateOf(w *domain.Webhook, health domain.Health, circuit domain.Circuit, attempted bool) string {
	_, inactive := w.Inactive(health)
	switch {
	case inactive:
		return stateInactive
	case !circuit.OpenSince.IsZero():
		return stateCircuitOpen
	case circuit.Failures >= domain.FailingFrom:
		return stateFailing
	case !attempted:
		return stateIdle
	}
	return stateHealthy
}

// inactiveFrom returns when a webhook becomes inactive if it goes on failing. It is nil for a
// webhook that is not failing, is read by pull, or is inactive already.
func (h *handlers) inactiveFrom(w *domain.Webhook, health domain.Health) *string {
	_, inactive := w.Inactive(health)
	if inactive || w.Delivery == domain.DeliveryPull || health.FailingSince.IsZero() || health.FailingSince.Before(w.ActivatedAt) {
		return nil
	}
	return web.Stamp(health.FailingSince.Add(h.DisableAfter))
}

func viewCircuit(c domain.Circuit) circuitView {
	return circuitView{Open: !c.OpenSince.IsZero(), Since: web.Stamp(c.OpenSince), FailuresInRow: c.Failures, NextProbeAt: web.Stamp(c.NextProbeAt)}
}

// viewWindow adds up rows by class.
func viewWindow(rows []rollup.Row) windowView {
	v := windowView{Classes: map[domain.Class]int64{}}
	var all rollup.Histogram
	for i := range rows {
		row := &rows[i]
		v.Attempts += row.Attempts
		v.Succeeded += row.Succeeded
		v.Failed += row.Failed()
		v.Classes[row.Class] = row.Attempts
		all = all.Merge(row.Latency)
	}
	if v.Attempts > 0 {
		rate := float64(v.Succeeded) / float64(v.Attempts)
		v.SuccessRate = &rate
	}
	v.LatencyMs = latencyOf(all)
	return v
}

// lastTimes returns when an attempt last succeeded, and when one last failed.
func lastTimes(rows []rollup.Row) (success, failure *string) {
	var failed time.Time
	for i := range rows {
		if rows[i].Class == domain.ClassOK {
			success = web.Stamp(rows[i].Last)
		} else if rows[i].Last.After(failed) {
			failed = rows[i].Last
		}
	}
	return success, web.Stamp(failed)
}

func viewAnswer(a domain.Answer) answerView {
	return answerView{At: web.Stamp(a.At), StatusCode: a.Status, Class: a.Class, Body: a.Body}
}
