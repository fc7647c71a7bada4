package receivers

import (
	"context"
	"maps"
	"slices"
	"time"

	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/store/rollup"
)

// Problem is the problem of a webhook.
type Problem struct {
	Cause           string           `json:"cause"` // a class of attempts, or the reason why the webhook is inactive
	Since           *string          `json:"since"`
	Acknowledgement *Acknowledgement `json:"acknowledgement,omitzero"`
	// Quiet is true if a person knows of the problem: then the problem need not be shown first.
	Quiet bool `json:"quiet"`

	since time.Time
}

// Acknowledgement says who has acknowledged a problem, and when.
type Acknowledgement struct {
	By         string  `json:"by"`
	At         *string `json:"at"`
	MutedUntil *string `json:"mutedUntil,omitzero"`
}

// ViewAcknowledgement returns an acknowledgement as callers see it.
func ViewAcknowledgement(a domain.Acknowledgement) Acknowledgement {
	return Acknowledgement{a.By, web.Stamp(a.At), web.Stamp(a.MutedUntil)}
}

// degradedFor bounds the look back for the time at which a webhook became degraded.
const degradedFor = 24 * time.Hour

// problems finds the problem of each troubled webhook, and its acknowledgement. problems takes two statements at
// most.
func (r *Reader) problems(ctx context.Context, account string, webhooks []domain.Webhook, healths []domain.Health, circuits map[domain.WebhookID]domain.Circuit, list []Health, now time.Time) error {
	var troubled, degraded []domain.WebhookID
	for i := range list {
		if list[i].State.Troubled() {
			troubled = append(troubled, list[i].WebhookID)
		}
		if list[i].State == Degraded {
			degraded = append(degraded, list[i].WebhookID)
		}
	}
	if len(troubled) == 0 {
		return nil
	}
	known, err := r.Webhooks.Acknowledgements(ctx, troubled)
	if err != nil {
		return err
	}
	hours := map[domain.WebhookID][]rollup.Row{}
	if len(degraded) > 0 {
		lists, err := r.Rollups.Read(ctx, account, rollup.Query{
			Webhooks: degraded, Since: now.Add(-degradedFor), Until: now.Add(time.Minute), Step: rollup.Hour, By: rollup.ByWebhookClass,
		})
		if err != nil {
			return err
		}
		hours = byWebhook(lists[0])
	}
	for i := range list {
		h := &list[i]
		if !h.State.Troubled() {
			continue
		}
		h.Problem = &Problem{Cause: string(h.cause())}
		switch w, circuit := &webhooks[i], circuits[h.WebhookID]; h.State {
		case Inactive:
			reason, _ := w.Inactive(healths[i])
			h.Problem.Cause, h.Problem.since = string(reason), w.InactiveSince(healths[i])
		case Degraded:
			h.Problem.since = degradedSince(hours[h.WebhookID], now)
		default:
			h.Problem.since = circuit.FailingSince
		}
		h.Problem.Since = web.Stamp(h.Problem.since)
		if a, ok := known[h.WebhookID]; ok {
			view := ViewAcknowledgement(a)
			h.Problem.Acknowledgement, h.Problem.Quiet = &view, h.Problem.covered(a, now)
		}
	}
	return nil
}

// covered reports whether an acknowledgement is of this problem: both have the same cause, and the problem began
// before the acknowledgement. An acknowledgement that mutes covers every problem until its end.
func (p *Problem) covered(a domain.Acknowledgement, now time.Time) bool {
	if !a.MutedUntil.IsZero() {
		return now.Before(a.MutedUntil)
	}
	return p.Cause == a.Cause && !p.since.After(a.At)
}

// cause returns the class of the last failed attempt.
func (h *Health) cause() domain.Class {
	for _, a := range h.Answers {
		if a.Class != domain.ClassOK {
			return a.Class
		}
	}
	return ""
}

// degradedSince returns the beginning of the first hour with failures after the last one in which enough attempts
// succeeded. Rows are those of a webhook by hour and class.
func degradedSince(rows []rollup.Row, now time.Time) time.Time {
	hours := map[time.Time]*rollup.Row{}
	for i := range rows {
		row := &rows[i]
		if hours[row.Start] == nil {
			hours[row.Start] = &rollup.Row{}
		}
		hours[row.Start].Attempts += row.Attempts
		hours[row.Start].Succeeded += row.Succeeded
	}
	since := now.Truncate(time.Hour)
	for _, start := range slices.SortedFunc(maps.Keys(hours), func(a, b time.Time) int { return b.Compare(a) }) {
		of := hours[start]
		well := of.Attempts >= degradedFrom && float64(of.Succeeded) >= healthyFrom*float64(of.Attempts)
		if well && start.Before(now.Truncate(time.Hour)) {
			break
		}
		if of.Succeeded < of.Attempts {
			since = start
		}
	}
	return since
}
