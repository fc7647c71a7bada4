package webhooks

import (
	"context"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/filter"
	"waybill.dev/shared/input"
	"waybill.dev/shared/jsonscan"
	"waybill.dev/shared/store/pipeline"
)

// Events has the events of an account.
type Events interface {
	ListEvents(ctx context.Context, filter pipeline.EventFilter) ([]domain.Event, string, error)
}

// filter reads the filter of a webhook; null removes it.
func (w *webhookForm) filter() {
	if text, _, ok := readFilter(w.Form); ok {
		w.Add(func(hook *domain.Webhook) { hook.Filter = text })
	}
}

// readFilter reads a filter as it was written; for null, both results are empty. ok is false when
// the filter is missing or faulty.
func readFilter(f *input.Form) (text string, chosen *filter.Filter, ok bool) {
	if f.Null("filter") {
		return "", nil, true
	}
	raw, ok := f.Object("filter")
	if !ok {
		return "", nil, false
	}
	chosen, faults := filter.Parse(raw)
	for _, fault := range faults {
		f.Fault(fault.Detail, append([]string{"filter"}, names(fault.Pointer)...)...)
	}
	return string(raw), chosen, len(faults) == 0
}

// names returns the names in a JSON pointer.
func names(pointer string) []string {
	if pointer == "" {
		return nil
	}
	list := strings.Split(pointer[1:], "/")
	for i, name := range list {
		list[i] = strings.ReplaceAll(strings.ReplaceAll(name, "~1", "/"), "~0", "~")
	}
	return list
}

// shownFilter returns a webhook's filter as callers see it; null: it has none.
func shownFilter(w *domain.Webhook) jsontext.Value {
	if w.Filter == "" {
		return nil
	}
	return jsontext.Value(w.Filter)
}

// Bounds of a trial of a filter.
const (
	defaultLastEvents = 100
	maxLastEvents     = 1000
	// maxSamples bounds the samples that matched, and those that did not.
	maxSamples = 50
	// eventsAtOnce is how many events are in memory at a time.
	eventsAtOnce = 100
)

// Trial is the effect of a filter on the last events.
type Trial struct {
	Matched int `json:"matched"`
	Missed  int `json:"missed"`
	// Samples are the newest events that matched and that missed, the newest first.
	Samples []Sample `json:"samples"`
}

// Sample is an event of a trial.
type Sample struct {
	EventID    string           `json:"eventId"`
	Type       domain.EventType `json:"type"`
	ReceivedAt *string          `json:"receivedAt"`
	Matched    bool             `json:"matched"`
	// Clause is the clause that the event misses, and Pointer its place in the filter.
	Clause  string  `json:"clause,omitzero"`
	Pointer *string `json:"pointer,omitzero"`
}

func (h *handlers) testFilter(c *web.Call) error {
	id, f := web.ID(c, domain.ParseWebhookID), c.OptionalForm()
	_, chosen, given := readFilter(f)
	last, ok := f.Integer("lastEvents", 1, maxLastEvents)
	if !ok {
		last = defaultLastEvents
	}
	if err := c.Check(); err != nil {
		return err
	}
	w, _, err := h.Store.GetWebhook(c.Context(), c.Principal.Account, id)
	if err != nil {
		return err
	}
	if !given && w.Filter != "" {
		var faults []jsonscan.Fault
		if chosen, faults = filter.Parse([]byte(w.Filter)); len(faults) > 0 {
			return web.Conflict("The webhook's filter can't be read. Set it anew.")
		}
	}
	t := Trial{Samples: []Sample{}}
	if err := h.lastEvents(c.Context(), &w, last, func(e *domain.Event) { t.add(e, chosen) }); err != nil {
		return err
	}
	return c.Answer(http.StatusOK, t)
}

// lastEvents calls yield with the newest events of the webhook's account and types.
func (h *handlers) lastEvents(ctx context.Context, w *domain.Webhook, last int, yield func(*domain.Event)) error {
	page := pipeline.EventFilter{Account: w.Account, Types: w.Events}
	for last > 0 {
		page.Limit = min(last, eventsAtOnce)
		events, next, err := h.Events.ListEvents(ctx, page)
		if err != nil {
			return err
		}
		for i := range events {
			yield(&events[i])
		}
		if last -= len(events); next == "" {
			return nil
		}
		page.Cursor = next
	}
	return nil
}

// add counts an event; without a filter, every event matches.
func (t *Trial) add(e *domain.Event, chosen *filter.Filter) {
	s := Sample{EventID: e.ID, Type: e.Type, ReceivedAt: web.Stamp(e.ReceivedAt), Matched: true}
	count := &t.Matched
	if chosen != nil {
		if miss, missed := chosen.Miss(filter.Read(e.Payload)); missed {
			s.Matched, s.Clause, s.Pointer = false, miss.Clause, &miss.Pointer
			count = &t.Missed
		}
	}
	*count++
	if *count <= maxSamples {
		t.Samples = append(t.Samples, s)
	}
}
