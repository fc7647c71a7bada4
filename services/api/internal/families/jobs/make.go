package jobs

import (
	"fmt"
	"math"
	"net/http"
	"strings"

	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/input"
	"waybill.dev/shared/news"
	"waybill.dev/shared/store/pipeline"
)

// Made is a new job.
type Made struct {
	ID      string `json:"id"`
	Matched int    `json:"matched"`
	Reason  string `json:"reason,omitzero"`
}

// Plan is the preview of a job.
type Plan struct {
	Matched          int     `json:"matched"`
	More             bool    `json:"more,omitzero"` // more deliveries may match
	Oldest           *string `json:"oldest"`
	AlreadyDelivered int     `json:"alreadyDelivered"`
	EstimatedSeconds float64 `json:"estimatedSeconds"`
	Reason           string  `json:"reason,omitzero"`
}

func (h *handlers) replay(c *web.Call) error {
	id, f := web.ID(c, domain.ParseWebhookID), c.Form()
	f.Require("since")
	filter, _ := readFilter(f, pipeline.ReplayStatuses())
	filter.Webhook = id
	return h.make(c, f, domain.JobReplay, filter)
}

func (h *handlers) retry(c *web.Call) error {
	f := c.Form()
	filter, given := readFilter(f, pipeline.RetryStatuses())
	if webhook, ok := readID(f, "webhookId", domain.ParseWebhookID, "must be a UUID"); ok {
		filter.Webhook = webhook
	}
	if !given && !f.Has("webhookId") {
		f.Fault("must have at least one filter, such as webhookId, status or since")
	}
	return h.make(c, f, domain.JobRetry, filter)
}

// make makes a job, or only returns its preview.
func (h *handlers) make(c *web.Call, f *input.Form, kind domain.JobKind, filter pipeline.JobFilter) error {
	dry, _ := f.Bool("dryRun")
	if err := c.Check(); err != nil {
		return err
	}
	filter.Account = c.Principal.Account
	job := pipeline.NewJob{Kind: kind, By: c.Principal.ID, Filter: filter}
	if dry {
		return h.plan(c, job)
	}
	made, err := h.Maker.CreateJob(c.Context(), job)
	if err != nil {
		return web.Taken(err, web.ReadByPull)
	}
	h.Requested()
	c.Made(news.Job, made.ID)
	return c.Answer(http.StatusAccepted, Made{made.ID, made.Matched, whyNone(made.None, filter.Resend)})
}

func (h *handlers) plan(c *web.Call, job pipeline.NewJob) error {
	plan, err := h.Maker.PlanJob(c.Context(), job)
	if err != nil {
		return web.Taken(err, web.ReadByPull)
	}
	c.Unchanged()
	return c.Answer(http.StatusOK, Plan{plan.Matched, plan.More, web.Stamp(plan.Oldest), plan.Delivered, math.Ceil(plan.Takes.Seconds()), whyNone(plan.None, job.Filter.Resend)})
}

// readFilter reads the fields that a replay and a retry have in common, and reports whether any of
// them is set.
func readFilter(f *input.Form, statuses []pipeline.Resend) (filter pipeline.JobFilter, given bool) {
	since, sinceOK := f.Time("since")
	until, untilOK := f.Time("until") // left out: now
	if sinceOK && untilOK && until.Before(since) {
		f.Fault("must not be before since", "until")
	}
	filter.Since, filter.Until = since, until
	status, ok := web.ReadChoice(f, "status", statuses)
	if !ok {
		status = statuses[0]
	}
	filter.Resend = status
	if event, ok := f.Text("eventId", 1, math.MaxInt32); ok {
		if !domain.ValidEventID(event) {
			f.Fault("must be 1 to 64 characters of A-Z a-z 0-9 _ -", "eventId")
		}
		filter.EventID = event
	}
	filter.Type, _ = web.ReadChoice(f, "eventType", domain.WebhookTypes())
	filter.Shipment, _ = f.Text("shipmentId", 1, domain.MaxShipmentID)
	filter.Reason, _ = web.ReadChoice(f, "reason", domain.Reasons())
	filter.Class, _ = web.ReadChoice(f, "class", domain.Classes())
	filter.StatusCode, _ = f.Integer("statusCode", 100, 599)
	if test, ok := f.Bool("test"); ok {
		filter.Test = &test
	}
	for _, name := range []string{"since", "until", "status", "eventId", "eventType", "shipmentId", "reason", "class", "statusCode", "test"} {
		given = given || f.Has(name)
	}
	return filter, given
}

// readID reads a member that is an id; what is the text of the fault for an invalid one.
func readID[T any](f *input.Form, name string, parse func(string) (T, error), what string) (id T, ok bool) {
	text, ok := f.Text(name, 0, math.MaxInt32)
	if !ok {
		return id, false
	}
	id, err := parse(text)
	if err != nil {
		f.Fault(what, name)
	}
	return id, err == nil
}

// whyNone returns the reason why a replay matches nothing; empty: it matches something, or the job
// is no replay.
func whyNone(none *pipeline.NoMatches, which pipeline.Resend) string {
	if none == nil {
		return ""
	}
	var parts []string
	for _, part := range []struct {
		status domain.Status
		text   string
	}{
		{domain.StatusDelivered, "delivered"},
		{domain.StatusPending, "in flight or already requested again"},
		{domain.StatusHeld, "held until the webhook is active"},
		{domain.StatusRetrying, "waiting for their next attempt"},
		{domain.StatusFailed, "failed"},
	} {
		if n := none.ByStatus[part.status]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, part.text))
		}
	}
	if len(parts) == 0 {
		return "No event that was accepted in this time range has a delivery to the webhook."
	}
	of := "Deliveries in this time range"
	if none.Truncated {
		of = "Of the oldest deliveries in this time range"
	}
	reason := fmt.Sprintf("%s: %s.", of, strings.Join(parts, "; "))
	if none.FilterRejects > 0 {
		reason += fmt.Sprintf(" %d of them do not match the webhook's filter.", none.FilterRejects)
	}
	switch {
	case which == pipeline.ResendFailed && none.ByStatus[domain.StatusRetrying] > 0:
		reason += " With the status undelivered, those that wait for their next attempt are sent too."
	case which != pipeline.ResendAll && none.ByStatus[domain.StatusDelivered] > 0:
		reason += " With the status all, the delivered ones are sent too."
	}
	return reason
}
