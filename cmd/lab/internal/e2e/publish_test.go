package e2e_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"waybill.dev/cmd/internal/client"
	"waybill.dev/shared/domain"
)

// sampleEvents reads the four sample events, which have every documented field.
func sampleEvents(t *testing.T) []event {
	t.Helper()
	files, err := filepath.Glob("testdata/*.json")
	if err != nil || len(files) != 4 {
		t.Fatalf("sample events: %v %v", files, err)
	}
	var list []event
	for _, file := range files {
		body, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var raw struct {
			ID        string
			Type      domain.EventType
			Timestamp string
			Data      json.RawMessage
		}
		if err := json.Unmarshal(body, &raw); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		list = append(list, event{raw.ID, raw.Type, raw.Timestamp, string(raw.Data)})
	}
	return list
}

// ways are all ways to publish an event.
func (w *world) ways() map[string]func(...event) {
	subject := func(e event) string { return "events.default." + string(e.Type) }
	send := func(m *nats.Msg) {
		if err := w.nats.PublishMsg(m); err != nil {
			w.Fatalf("publish on NATS: %v", err)
		}
	}
	each := func(f func(event)) func(...event) {
		return func(events ...event) {
			for _, e := range events {
				f(e)
			}
		}
	}
	return map[string]func(...event){
		"rest": each(w.post),
		"batch": func(events ...event) {
			bodies := make([]string, len(events))
			for i, e := range events {
				bodies[i] = string(e.body())
			}
			if out := w.submit([]byte("[" + strings.Join(bodies, ",") + "]")); len(out) != len(events) {
				w.Fatalf("a batch of %d answers %v", len(events), out)
			}
		},
		"nats": each(func(e event) { send(&nats.Msg{Subject: subject(e), Data: e.body()}) }),
		"nats-spare": each(func(e event) {
			send(&nats.Msg{Subject: subject(e), Data: e.body(), Header: nats.Header{"Nats-Msg-Id": {e.ID}}})
		}),
		"jetstream": each(func(e event) {
			if _, err := w.js.Publish(w.Context(), subject(e), e.body()); err != nil {
				w.Fatalf("publish on JetStream: %v", err)
			}
		}),
		"cloudevents-structured": each(func(e event) {
			body := fmt.Appendf(nil, `{"specversion":"1.0","source":"/carriers/dhl","id":%q,"type":%q,"time":%q,"data":%s}`,
				e.ID, e.Type, e.Timestamp, e.Data)
			send(&nats.Msg{Subject: subject(e), Data: body, Header: nats.Header{"content-type": {"application/cloudevents+json"}}})
		}),
		"cloudevents-binary": each(func(e event) {
			send(&nats.Msg{Subject: subject(e), Data: []byte(e.Data), Header: nats.Header{
				"content-type": {"application/json"}, "ce-specversion": {"1.0"}, "ce-source": {"/carriers/dhl"},
				"ce-id": {e.ID}, "ce-type": {string(e.Type)}, "ce-time": {e.Timestamp},
			}})
		}),
	}
}

func samples(w *world) {
	endpoint, _ := w.register("all", func(h *client.Webhook) { h.Headers = map[string]string{"X-Tenant": "north"} })
	endpoint.Keep()
	exceptions, _ := w.register("exceptions", func(h *client.Webhook) { h.Events = []domain.EventType{domain.ShipmentException} })
	w.known(2)
	var all []event
	for way, publish := range w.ways() {
		var list []event
		for _, e := range sampleEvents(w.T) {
			e.ID += "_" + way
			list = append(list, e)
		}
		publish(list...)
		all = append(all, list...)
	}
	if err := w.nats.Flush(); err != nil {
		w.Fatal(err)
	}
	ids := make([]string, len(all))
	for i, e := range all {
		ids[i] = e.ID
	}
	w.arrived(endpoint, ids)
	for _, e := range all {
		post, _ := endpoint.Newest(e.ID)
		e.sameAs(w.T, post)
		for name, want := range map[string]string{"X-Tenant": "north", "Waybill-Attempt": "1", "Content-Type": "application/json"} {
			if got := post.Header.Get(name); got != want {
				w.Errorf("header %s is %q, want %q", name, got, want)
			}
		}
		if agent := post.Header.Get("User-Agent"); !strings.HasPrefix(agent, "Waybill/") {
			w.Errorf("User-Agent is %q", agent)
		}
		if strings.Contains(e.Data, "score") && (!strings.Contains(string(post.Body), "0.1000") || !strings.Contains(string(post.Body), "9007199254740993")) {
			w.Errorf("numbers changed on the way: %s", post.Body)
		}
	}
	ids = slices.DeleteFunc(ids, func(id string) bool { return !strings.HasPrefix(id, "evt_019819aa") })
	w.arrived(exceptions, ids)
	if n := exceptions.Ids(); n != len(ids) {
		w.Errorf("the webhook for exceptions got %d events, want %d", n, len(ids))
	}
	// Without id and timestamp both are made, also where only the stream can tell them.
	without, _ := w.register("without", nil)
	without.Keep()
	w.known(3)
	if err := w.nats.Publish("events.default.shipment.created", []byte(`{"type":"shipment.created","data":{"shipmentId":"bare"}}`)); err != nil {
		w.Fatalf("publish on NATS: %v", err)
	}
	out, err := w.api.Publish(w.Context(), []byte(`{"type":"shipment.created","data":{"shipmentId":"bare"}}`))
	if err != nil || len(out) != 1 || !strings.HasPrefix(out[0].ID, "evt_") {
		w.Fatalf("publish without id: %v %v", out, err)
	}
	w.await("two events without id", patience, func() bool { return without.Ids() == 2 })
	for id, post := range without.Kept() {
		var got struct{ ID, Timestamp string }
		if err := json.Unmarshal(post.Body, &got); err != nil || got.ID != id || got.Timestamp == "" || !domain.ValidEventID(id) {
			w.Errorf("an event without id arrived as %s", post.Body)
		}
	}
}

func generated(w *world) {
	const total, oneByOne, batch = 10_000, 500, 500
	endpoint, _ := w.register("all", nil)
	endpoint.Keep()
	w.known(1)
	g := newGenerator(20261116)
	events := make([]event, total)
	ids := make([]string, total)
	for i := range events {
		types := domain.EventTypes()
		events[i] = w.event(types[i%len(types)], g.data())
		ids[i] = events[i].ID
	}
	ways := w.ways()
	rest := events
	for _, way := range []string{"rest", "nats", "jetstream", "cloudevents-structured", "cloudevents-binary"} {
		ways[way](rest[:oneByOne]...)
		rest = rest[oneByOne:]
	}
	for chunk := range slices.Chunk(rest, batch) {
		ways["batch"](chunk...)
	}
	if err := w.nats.Flush(); err != nil {
		w.Fatal(err)
	}
	w.await("all generated events", 2*patience, func() bool { return endpoint.Accepted(ids) == total })
	kept := endpoint.Kept()
	for _, e := range events {
		e.sameAs(w.T, kept[e.ID])
		if w.Failed() {
			break
		}
	}
}

func duplicates(w *world) {
	endpoint, _ := w.register("all", nil)
	e := w.event(domain.ShipmentCreated, "")
	w.post(e)
	out, err := w.api.Publish(w.Context(), e.body())
	if err != nil || len(out) != 1 || !out[0].Duplicate {
		w.Errorf("the same id again answers %+v, %v; want a duplicate", out, err)
	}
	f := w.event(domain.ShipmentCreated, "")
	out, err = w.api.Publish(w.Context(), slices.Concat([]byte("["), f.body(), []byte(","), f.body(), []byte(","), e.body(), []byte("]")))
	if err != nil || len(out) != 3 || out[0].Duplicate || !out[1].Duplicate || !out[2].Duplicate {
		w.Errorf("a batch with repeats answers %+v, %v", out, err)
	}
	// REST and the bus share one window, in which a REST event is <account>.<id>.
	w.await("two events", patience, func() bool { return endpoint.Ids() >= 2 })
	ack, err := w.js.Publish(w.Context(), "events.default."+string(f.Type), f.body(), jetstream.WithMsgID("default."+f.ID))
	if err != nil || !ack.Duplicate {
		w.Errorf("the bus answers a REST event's id with %+v, %v; want a duplicate", ack, err)
	}

	body := []byte(`{"type":"shipment.delivered","data":{"shipmentId":"once"}}`)
	key := http.Header{"Idempotency-Key": {"order-7"}}
	first, err := w.api.Ask(w.Context(), http.MethodPost, "/v1/events", body, key)
	if err != nil || first.Status != http.StatusAccepted {
		w.Fatalf("publish with a key: %+v %v", first, err)
	}
	again, err := w.api.Ask(w.Context(), http.MethodPost, "/v1/events", body, key)
	if err != nil || again.Status != http.StatusAccepted || !bytes.Equal(again.Body, first.Body) {
		w.Errorf("the same key and body answer %d %s, want %s", again.Status, again.Body, first.Body)
	}
	other, err := w.api.Ask(w.Context(), http.MethodPost, "/v1/events", w.event(domain.ShipmentCreated, "").body(), key)
	if err != nil || other.Status != http.StatusConflict {
		w.Errorf("the same key with another body answers %d", other.Status)
	}
	w.await("three events", patience, func() bool { return endpoint.Ids() >= 3 })
	w.quiet(endpoint, patience/20)
	if endpoint.Ids() != 3 || endpoint.Posts() != 3 {
		w.Errorf("%d events in %d POSTs arrived, want 3 in 3", endpoint.Ids(), endpoint.Posts())
	}
}
