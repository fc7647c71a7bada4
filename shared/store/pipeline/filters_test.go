package pipeline_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/pipeline"
	"waybill.dev/shared/store/pipeline/pipelinetest"
)

// testFilters asks for every filter of deliveries, alone and combined, page by page.
func testFilters(t *testing.T, b *bench) {
	w, gone := b.Webhook(t), b.Webhook(t)
	accept := func(id, shipment string, kind domain.EventType) domain.Event {
		e := pipelinetest.Event(id)
		e.Type = kind
		e.Payload = []byte(`{"id":"` + id + `","data":{"shipmentId":"` + shipment + `"}}`)
		e.ReceivedAt = b.Submit(t, pipeline.Submission{Account: account, Events: []domain.Event{e}}).Events[0].ReceivedAt
		e.Account = account
		b.Clock.Advance(7 * time.Hour) // over several days
		return e
	}
	ids := map[string]domain.DeliveryID{}
	record := func(name string, e domain.Event, to domain.Webhook, status domain.Status, change func(*domain.Outcome)) domain.Outcome {
		o := b.Outcome(e, to, status)
		change(&o)
		ids[name] = o.Delivery
		b.Recorded(t, o)
		return o
	}
	as := func(class domain.Class, status int, reason string) func(*domain.Outcome) {
		return func(o *domain.Outcome) { o.Attempt.Class, o.Attempt.Status, o.Reason = class, status, reason }
	}
	created, exception := domain.ShipmentCreated, domain.ShipmentException
	record("ok", accept("evt_1", "a", created), w, domain.StatusDelivered, func(*domain.Outcome) {})
	record("accepted", accept("evt_2", "b", created), w, domain.StatusDelivered, as(domain.ClassOK, 202, ""))
	again := record("timeout", accept("evt_3", "a", exception), w, domain.StatusRetrying, as(domain.ClassTimeout, 0, ""))
	record("exhausted", accept("evt_4", "b", created), w, domain.StatusFailed, as(domain.Class5xx, 503, domain.ReasonExhausted))
	record("held", accept("evt_5", "c", created), w, domain.StatusHeld, func(o *domain.Outcome) {
		o.Attempt, o.Attempts, o.Reason = nil, 0, domain.ReasonInactive
	})
	record("deleted", accept("evt_6", "c", created), gone, domain.StatusRetrying, as(domain.Class4xx, 404, ""))
	late := record("late", accept("evt_7", "a", created), w, domain.StatusRetrying, as(domain.Class5xx, 500, ""))
	b.Recorded(t, b.After(late, domain.StatusDelivered))
	record("test", accept("evt_8", "t", created), w, domain.StatusDelivered, func(o *domain.Outcome) { o.Test = true })
	if err := b.DeleteWebhook(t.Context(), account, gone.ID); err != nil {
		t.Fatal(err)
	}
	yes, no := true, false
	for name, row := range map[string]struct {
		filter pipeline.DeliveryFilter
		want   []string
	}{
		"all":                    {pipeline.DeliveryFilter{}, []string{"test", "late", "deleted", "held", "exhausted", "timeout", "accepted", "ok"}},
		"class ok":               {pipeline.DeliveryFilter{Class: domain.ClassOK}, []string{"test", "late", "accepted", "ok"}},
		"class timeout":          {pipeline.DeliveryFilter{Class: domain.ClassTimeout}, []string{"timeout"}},
		"class 4xx":              {pipeline.DeliveryFilter{Class: domain.Class4xx}, []string{"deleted"}},
		"status code 200":        {pipeline.DeliveryFilter{StatusCode: 200}, []string{"test", "late", "ok"}},
		"status code 202":        {pipeline.DeliveryFilter{StatusCode: 202}, []string{"accepted"}},
		"status code 503":        {pipeline.DeliveryFilter{StatusCode: 503}, []string{"exhausted"}},
		"status code 500":        {pipeline.DeliveryFilter{StatusCode: 500}, nil}, // the last one was better
		"code and class":         {pipeline.DeliveryFilter{StatusCode: 503, Class: domain.ClassTimeout}, nil},
		"reason":                 {pipeline.DeliveryFilter{Reason: domain.ReasonExhausted}, []string{"exhausted"}},
		"reason deleted":         {pipeline.DeliveryFilter{Reason: domain.ReasonWebhookDeleted}, []string{"deleted"}},
		"reason of another":      {pipeline.DeliveryFilter{Reason: domain.ReasonInactive, Webhook: gone.ID}, nil},
		"reason and webhook":     {pipeline.DeliveryFilter{Reason: domain.ReasonInactive, Webhook: w.ID}, []string{"held"}},
		"type":                   {pipeline.DeliveryFilter{Type: exception}, []string{"timeout"}},
		"type and class":         {pipeline.DeliveryFilter{Type: created, Class: domain.Class5xx}, []string{"exhausted"}},
		"tests":                  {pipeline.DeliveryFilter{Test: &yes}, []string{"test"}},
		"no tests, delivered":    {pipeline.DeliveryFilter{Test: &no, Status: domain.StatusDelivered}, []string{"late", "accepted", "ok"}},
		"shipment":               {pipeline.DeliveryFilter{Shipment: "a"}, []string{"late", "timeout", "ok"}},
		"shipment and webhook":   {pipeline.DeliveryFilter{Shipment: "c", Webhook: gone.ID}, []string{"deleted"}},
		"shipment and class":     {pipeline.DeliveryFilter{Shipment: "a", Class: domain.ClassTimeout}, []string{"timeout"}},
		"shipment and event":     {pipeline.DeliveryFilter{Shipment: "a", EventID: "evt_3"}, []string{"timeout"}},
		"event of another":       {pipeline.DeliveryFilter{Shipment: "b", EventID: "evt_3"}, nil},
		"shipment since":         {pipeline.DeliveryFilter{Shipment: "a", Since: again.UpdatedAt.Add(-8 * time.Hour)}, []string{"late", "timeout"}},
		"shipment until":         {pipeline.DeliveryFilter{Shipment: "a", Until: again.UpdatedAt.Add(-8 * time.Hour)}, []string{"ok"}},
		"unknown shipment":       {pipeline.DeliveryFilter{Shipment: "nowhere"}, nil},
		"everything of a filter": {pipeline.DeliveryFilter{Shipment: "b", Class: domain.Class5xx, StatusCode: 503, Reason: domain.ReasonExhausted, Type: created, Test: &no, Webhook: w.ID, Status: domain.StatusFailed}, []string{"exhausted"}},
	} {
		var want []domain.DeliveryID
		for _, one := range row.want {
			want = append(want, ids[one])
		}
		if diff := cmp.Diff(want, b.Deliveries(t, row.filter)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		row.filter.Account = "other"
		if page, _, err := b.ListDeliveries(t.Context(), row.filter); err != nil || len(page) != 0 {
			t.Errorf("%s: another account sees %d, %v", name, len(page), err)
		}
	}

	// What is asked for once more is pending, and has no reason; its last attempt stays.
	if _, err := b.RequestRetry(t.Context(), account, ids["exhausted"]); err != nil {
		t.Fatal(err)
	}
	for name, row := range map[string]struct {
		filter pipeline.DeliveryFilter
		want   int
	}{
		"reason": {pipeline.DeliveryFilter{Reason: domain.ReasonExhausted}, 0}, "class": {pipeline.DeliveryFilter{Class: domain.Class5xx}, 1},
		"pending": {pipeline.DeliveryFilter{Status: domain.StatusPending, StatusCode: 503, Shipment: "b"}, 1},
	} {
		if got := b.Deliveries(t, row.filter); len(got) != row.want {
			t.Errorf("%s of what is asked for once more: %d, want %d", name, len(got), row.want)
		}
	}
}

func testCursorOfAnotherFilter(t *testing.T, b *bench) {
	w := b.Webhook(t)
	for i := range 4 {
		b.Recorded(t, b.Outcome(b.Accepted(t, fmt.Sprintf("evt_%d", i)), w, domain.StatusFailed))
		b.Clock.Advance(time.Millisecond)
	}
	f := pipeline.DeliveryFilter{Account: account, Class: domain.Class5xx, Limit: 2}
	_, cursor, err := b.ListDeliveries(t.Context(), f)
	if err != nil || cursor == "" {
		t.Fatalf("cursor %q, %v", cursor, err)
	}
	f.Class, f.Cursor = "", cursor
	if _, _, err := b.ListDeliveries(t.Context(), f); !errors.Is(err, store.ErrCursor) {
		t.Errorf("deliveries, without the filter: %v", err)
	}
	e := pipeline.EventFilter{Account: account, Shipment: "SH-1", Limit: 2}
	page, cursor, err := b.ListEvents(t.Context(), e)
	if err != nil || len(page) != 2 || cursor == "" {
		t.Fatalf("%d events, cursor %q, %v", len(page), cursor, err)
	}
	e.Cursor = cursor
	if page, cursor, err = b.ListEvents(t.Context(), e); err != nil || len(page) != 2 || cursor != "" {
		t.Errorf("the second page: %d events, cursor %q, %v", len(page), cursor, err)
	}
	e.Source = domain.SourceREST
	if _, _, err := b.ListEvents(t.Context(), e); !errors.Is(err, store.ErrCursor) {
		t.Errorf("events, with another filter: %v", err)
	}
}

func testEventsByAllElse(t *testing.T, b *bench) {
	b.Accepted(t, "evt_rest")
	b.Clock.Advance(time.Millisecond)
	nats := pipelinetest.Event("evt_nats")
	nats.Account, nats.Type, nats.ReceivedAt = account, domain.ShipmentDelivered, b.Clock.Now()
	nats.Payload = []byte(`{"id":"evt_nats","data":{"shipmentId":"SH-2"}}`)
	b.RecordedBatch(t, domain.RecordBatch{Events: []domain.Event{nats}})
	for name, row := range map[string]struct {
		filter pipeline.EventFilter
		want   []string
	}{
		"all": {pipeline.EventFilter{}, []string{"evt_nats", "evt_rest"}}, "rest": {pipeline.EventFilter{Source: domain.SourceREST}, []string{"evt_rest"}},
		"nats": {pipeline.EventFilter{Source: domain.SourceNATS}, []string{"evt_nats"}}, "shipment": {pipeline.EventFilter{Shipment: "SH-2"}, []string{"evt_nats"}},
		"shipment and source": {pipeline.EventFilter{Shipment: "SH-2", Source: domain.SourceREST}, nil},
		"shipment and type":   {pipeline.EventFilter{Shipment: "SH-2", Type: domain.ShipmentDelivered}, []string{"evt_nats"}},
		"another type":        {pipeline.EventFilter{Shipment: "SH-2", Type: domain.ShipmentCreated}, nil},
	} {
		for _, of := range []string{account, "other"} {
			row.filter.Account = of
			page, _, err := b.ListEvents(t.Context(), row.filter)
			var got []string
			for _, e := range page {
				got = append(got, e.ID)
			}
			if of == "other" {
				row.want = nil
			}
			if diff := cmp.Diff(row.want, got); err != nil || diff != "" {
				t.Errorf("%s of %s: %v (-want +got):\n%s", name, of, err, diff)
			}
		}
	}
}
