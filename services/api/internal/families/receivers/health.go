package receivers

import (
	"time"

	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/store/pipeline"
	"waybill.dev/shared/store/rollup"
)

// State is how a webhook is doing, in one word.
type State string

// The states of a webhook.
const (
	Healthy     State = "healthy"
	Degraded    State = "degraded" // too many attempts of the last hour failed, though not all
	Failing     State = "failing"
	CircuitOpen State = "circuitOpen"
	Inactive    State = "inactive"
	Idle        State = "idle" // no attempt within the longest window
)

// States returns all states, the worst first.
func States() []State { return []State{CircuitOpen, Failing, Degraded, Inactive, Idle, Healthy} }

// Troubled reports whether something is the matter.
func (s State) Troubled() bool { return s != Healthy && s != Idle }

// A receiver is degraded when less than healthyFrom of the attempts of the last hour succeeded, and
// there were at least degradedFrom attempts.
const (
	healthyFrom  = 0.95
	degradedFrom = 20
)

// Health is the health of a webhook's receiver, as callers see it.
type Health struct {
	WebhookID     domain.WebhookID  `json:"webhookId"`
	State         State             `json:"state"`
	Degraded      bool              `json:"degraded,omitzero"` // for callers that do not know the state degraded
	Circuit       Circuit           `json:"circuit"`
	Windows       map[string]Window `json:"windows"`
	Waiting       int               `json:"waiting"`
	Held          int               `json:"held"`
	Scheduled     int               `json:"scheduled"`
	Oldest        *Oldest           `json:"oldestUndelivered,omitzero"`
	LastSuccessAt *string           `json:"lastSuccessAt,omitzero"`
	LastFailureAt *string           `json:"lastFailureAt,omitzero"`
	InactiveFrom  *string           `json:"inactiveFrom,omitzero"`
	Answers       []Answer          `json:"answers"`
	Problem       *Problem          `json:"problem,omitzero"`

	last *domain.Answer // of the last failed attempt
}

// Undelivered returns how many deliveries have not come to their end.
func (h *Health) Undelivered() int { return h.Waiting + h.Held + h.Scheduled }

// Oldest is the delivery of the earliest event among those that have not ended.
type Oldest struct {
	DeliveryID domain.DeliveryID `json:"deliveryId"`
	AcceptedAt *string           `json:"acceptedAt"`
}

func viewOldest(id domain.DeliveryID) *Oldest {
	at, ok := id.ReceivedAt()
	if !ok {
		return nil // no such delivery
	}
	return &Oldest{id, web.Stamp(at)}
}

// Circuit is the circuit of a webhook.
type Circuit struct {
	Open          bool    `json:"open"`
	Since         *string `json:"since,omitzero"`
	FailuresInRow int     `json:"failuresInARow"`
	NextProbeAt   *string `json:"nextProbeAt,omitzero"`
}

// Window has the results of the attempts in a time up to now.
type Window struct {
	Attempts    int64                  `json:"attempts"`
	Succeeded   int64                  `json:"succeeded"`
	Failed      int64                  `json:"failed"`
	SuccessRate *float64               `json:"successRate"` // null: there was no attempt
	LatencyMs   *Latency               `json:"latencyMs"`   // null: there was no attempt
	Classes     map[domain.Class]int64 `json:"classes"`
}

// Answer is a receiver's answer to an attempt.
type Answer struct {
	At         *string      `json:"at"`
	StatusCode int          `json:"statusCode,omitzero"`
	Class      domain.Class `json:"class"`
	Body       string       `json:"body,omitzero"`
}

// view returns the health of a webhook without counts.
func (r *Reader) view(w *domain.Webhook, health domain.Health, circuit domain.Circuit, open pipeline.OpenCounts) Health {
	return Health{
		WebhookID: w.ID, Circuit: viewCircuit(circuit), Waiting: open.Waiting, Held: open.Held, Scheduled: open.Scheduled, Oldest: viewOldest(open.Oldest),
		InactiveFrom: r.inactiveFrom(w, health), last: circuit.Last,
	}
}

// judge sets the state. Rows have the counts of the webhook, as far back as counts are kept.
func (h *Health) judge(w *domain.Webhook, health domain.Health, circuit domain.Circuit, rows []rollup.Row, now time.Time) {
	var success, failure time.Time
	for i := range rows {
		if rows[i].Class == domain.ClassOK {
			success = rows[i].Last
		} else if rows[i].Last.After(failure) {
			failure = rows[i].Last
		}
	}
	h.LastSuccessAt, h.LastFailureAt = web.Stamp(success), web.Stamp(failure)
	h.Answers = web.Views(lastAnswers(rows, circuit.Last), viewAnswer)
	hour, idle := h.Windows[recently().name], now.Add(-idleAfter)
	_, inactive := w.Inactive(health)
	switch {
	case inactive:
		h.State = Inactive
	case !circuit.OpenSince.IsZero():
		h.State = CircuitOpen
	case circuit.Failures >= domain.FailingFrom:
		h.State = Failing
	case success.Before(idle) && failure.Before(idle):
		h.State = Idle
	case hour.Attempts >= degradedFrom && *hour.SuccessRate < healthyFrom:
		h.State, h.Degraded = Degraded, true
	default:
		h.State = Healthy
	}
}

// inactiveFrom returns when a webhook becomes inactive if it continues to fail. It is nil for a webhook
// that is not failing, is read by pull, or is inactive already.
func (r *Reader) inactiveFrom(w *domain.Webhook, health domain.Health) *string {
	_, inactive := w.Inactive(health)
	if inactive || w.Delivery == domain.DeliveryPull || health.FailingSince.IsZero() || health.FailingSince.Before(w.ActivatedAt) {
		return nil
	}
	return web.Stamp(health.FailingSince.Add(r.DisableAfter))
}

func viewCircuit(c domain.Circuit) Circuit {
	return Circuit{Open: !c.OpenSince.IsZero(), Since: web.Stamp(c.OpenSince), FailuresInRow: c.Failures, NextProbeAt: web.Stamp(c.NextProbeAt)}
}

// viewWindow adds up rows by class.
func viewWindow(rows []rollup.Row) Window {
	v := Window{Classes: map[domain.Class]int64{}}
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
	v.LatencyMs = LatencyOf(all)
	return v
}

func viewAnswer(a domain.Answer) Answer {
	return Answer{At: web.Stamp(a.At), StatusCode: a.Status, Class: a.Class, Body: a.Body}
}
