package insight

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"time"

	"waybill.dev/services/api/internal/families/receivers"
	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/input"
	"waybill.dev/shared/problem"
	"waybill.dev/shared/store/rollup"
)

// Bounds of an answer.
const (
	defaultSpan = 24 * time.Hour
	maxSteps    = 10_000
	maxRows     = 20_000
)

// step is the name of a rollup.Step in a query.
type step string

const (
	minute step = "minute"
	hour   step = "hour"
	day    step = "day"
)

func (s step) rollup() rollup.Step {
	switch s {
	case minute:
		return rollup.Minute
	case day:
		return rollup.Day
	}
	return rollup.Hour
}

// Row has the counts of a step.
type Row struct {
	Start      *string            `json:"start"`
	WebhookID  domain.WebhookID   `json:"webhookId,omitzero"`
	Type       domain.EventType   `json:"type,omitzero"`
	Class      domain.Class       `json:"class,omitzero"`
	Events     *int64             `json:"events,omitzero"` // nil: the grouping does not apply to events
	Deliveries int64              `json:"deliveries"`
	Attempts   int64              `json:"attempts"`
	Succeeded  int64              `json:"succeeded"`
	Failed     int64              `json:"failed"`
	LatencyMs  *receivers.Latency `json:"latencyMs"`
}

// Statistics are counts by time.
type Statistics struct {
	Step step  `json:"step"`
	Data []Row `json:"data"`
}

func (h *handlers) statistics(c *web.Call) error {
	q := c.Query()
	by := cmp.Or(input.OneOf(q, "step", []step{minute, hour, day}), hour)
	query := rollup.Query{
		Step: by.rollup(), By: input.OneOf(q, "by", []rollup.By{rollup.ByWebhook, rollup.ByType, rollup.ByClass}),
		Since: q.Time("since"), Until: q.Time("until"), Most: maxRows,
	}
	if text, ok := q.Text("webhookId"); ok {
		id, err := domain.ParseWebhookID(text)
		if err != nil {
			q.Fault("webhookId", "must be a UUID")
		}
		query.Webhook = id
	}
	if query.Until.IsZero() {
		query.Until = time.Now()
	}
	if query.Since.IsZero() {
		query.Since = query.Until.Add(-defaultSpan)
	}
	switch {
	case !query.Since.Before(query.Until):
		q.Fault("until", "must be after since")
	case stepsOf(&query) > maxSteps:
		q.Fault("step", fmt.Sprintf("gives more than %d steps between since and until: take a longer step, or a shorter time", maxSteps))
	}
	if err := c.Check(); err != nil {
		return err
	}
	lists, err := h.Rollups.Read(c.Context(), c.Principal.Account, query)
	if errors.Is(err, domain.ErrLimit) {
		return problem.Invalid(problem.Fault{
			Parameter: "step",
			Detail:    fmt.Sprintf("gives more than %d rows: take a longer step, a shorter time, or one webhookId", maxRows),
		})
	}
	if err != nil {
		return err
	}
	countsEvents := query.Webhook == "" && (query.By == "" || query.By == rollup.ByType)
	return c.Answer(http.StatusOK, Statistics{Step: by, Data: web.Views(lists[0], func(r rollup.Row) Row {
		row := Row{
			Start: web.Stamp(r.Start), WebhookID: r.Webhook, Type: r.Type, Class: r.Class,
			Deliveries: r.Deliveries, Attempts: r.Attempts, Succeeded: r.Succeeded, Failed: r.Failed(),
			LatencyMs: receivers.LatencyOf(r.Latency),
		}
		if countsEvents {
			row.Events = &r.Events
		}
		return row
	})})
}

// stepsOf returns the number of steps in the time range of a query.
func stepsOf(q *rollup.Query) int64 {
	length := int64(q.Step.Duration() / time.Second)
	first, last := q.Since.Unix()/length, (q.Until.Add(-time.Nanosecond).Unix())/length
	return last - first + 1
}
