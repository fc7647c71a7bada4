package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"waybill.dev/cmd/internal/client"
	"waybill.dev/cmd/lab/internal/sink"
	"waybill.dev/cmd/lab/internal/stack"
	"waybill.dev/services/api/apitest"
	"waybill.dev/shared/domain"
)

// world is what a case has: a running Waybill of its own, a receiver, and ways to publish.
type world struct {
	*testing.T
	stack *stack.Stack
	api   *stack.Client
	sink  *sink.Sink
	nats  *nats.Conn
	js    jetstream.JetStream

	traces    *collector // nil: none are told
	endpoints []*sink.Endpoint
	events    atomic.Int64
}

// patience is how long something may take that is due at once.
const patience = 30 * time.Second

func newWorld(t *testing.T, st *stack.Stack) *world {
	t.Helper()
	w := &world{T: t, stack: st, api: st.Client()}
	var err error
	if w.sink, err = sink.New(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		w.api.Close()
		for _, e := range w.endpoints {
			if n, first := e.Faults(); n > 0 {
				t.Errorf("%s: %d callbacks were wrong: %q", e.URL, n, first)
			}
		}
		if err := st.Died(); err != nil {
			t.Error(err)
		}
		if err := st.Close(); err != nil {
			t.Errorf("stop the stack: %v", err)
		}
		w.sink.Close()
		if t.Failed() {
			t.Log(st.Logs())
		}
	})
	w.watch()
	if w.nats, err = nats.Connect(st.NATSURL, nats.CustomInboxPrefix("_INBOX_publisher")); err != nil {
		t.Fatalf("connect to the bus: %v", err)
	}
	t.Cleanup(w.nats.Close)
	if w.js, err = jetstream.New(w.nats); err != nil {
		t.Fatalf("open JetStream: %v", err)
	}
	return w
}

// watch holds every answer of the API to the OpenAPI document that it serves.
func (w *world) watch() {
	w.Helper()
	document, err := w.api.Ask(w.Context(), http.MethodGet, "/openapi", nil, nil)
	if err != nil || document.Status != http.StatusOK {
		w.Fatalf("read the OpenAPI document: %d, %v", document.Status, err)
	}
	checker, err := apitest.New(document.Body)
	if err != nil {
		w.Fatal(err)
	}
	w.api.See = (func(method, path string, a client.Answer) {
		if err := checker.Answer(method, path, a.Status, a.Header, a.Body); err != nil {
			w.Errorf("not as documented: %v", err)
		}
	})
}

// register registers a webhook for all events with a receiver of its own; more changes
// what it is registered with.
func (w *world) register(name string, more func(*client.Webhook)) (*sink.Endpoint, client.Webhook) {
	w.Helper()
	return w.registerAs(w.api, name, more)
}

// registerAs is register with another key.
func (w *world) registerAs(api *stack.Client, name string, more func(*client.Webhook)) (*sink.Endpoint, client.Webhook) {
	w.Helper()
	e := w.sink.Endpoint(name)
	w.endpoints = append(w.endpoints, e)
	in := client.Webhook{URL: e.URL, Events: domain.EventTypes()}
	if more != nil {
		more(&in)
	}
	made, err := api.Register(w.Context(), in)
	if err != nil {
		w.Fatalf("register a webhook: %v", err)
	}
	if err := e.Trust(made.Secret); err != nil {
		w.Fatal(err)
	}
	return e, made
}

// known waits until every dispatcher knows n webhooks: REST events never meet one that
// does not, but those that are published on the bus within a second of the change may.
func (w *world) known(n int) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), patience)
	defer cancel()
	if err := w.stack.AwaitDispatchers(ctx, "waybill_webhooks", float64(n)); err != nil {
		w.Fatal(err)
	}
}

// event makes an event; data is made up when it is empty.
func (w *world) event(t domain.EventType, data string) event {
	n := w.events.Add(1)
	if data == "" {
		data = fmt.Sprintf(`{"shipmentId":"shp_%d"}`, n)
	}
	return event{ID: fmt.Sprintf("evt_%d", n), Type: t, Timestamp: "2026-11-16T13:04:11+01:00", Data: data}
}

// publish publishes events over REST, one request each, and returns their ids.
func (w *world) publish(n int) []string {
	w.Helper()
	ids := make([]string, n)
	for i := range ids {
		e := w.event(domain.ShipmentCreated, "")
		ids[i] = e.ID
		w.post(e)
	}
	return ids
}

func (w *world) post(e event) {
	w.Helper()
	out := w.submit(e.body())
	if len(out) != 1 || out[0].ID != e.ID {
		w.Fatalf("publish answers %+v, want %s", out, e.ID)
	}
}

// submit publishes a body over REST. A store that is busy on a loaded machine may answer
// 503; then it does what every publisher does: again, with the same ids.
func (w *world) submit(body []byte) (out []client.Published) {
	w.Helper()
	var err error
	w.await("the publication is accepted", patience, func() bool {
		out, err = w.api.Publish(w.Context(), body)
		if err != nil && !client.IsStatus(err, http.StatusServiceUnavailable) {
			w.Fatalf("publish: %v", err)
		}
		return err == nil
	})
	return out
}

// await waits until done, or fails the case saying what did not happen.
func (w *world) await(what string, within time.Duration, done func() bool) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), within)
	defer cancel()
	if stack.Await(ctx, func() (bool, error) { return done(), nil }) != nil {
		w.Fatalf("within %s did not happen: %s", within, what)
	}
}

// arrived waits until an endpoint has answered all ids with 2xx.
func (w *world) arrived(e *sink.Endpoint, ids []string) {
	w.Helper()
	defer func() {
		if e.Accepted(ids) != len(ids) {
			missing := slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return e.Receipt(id).Accepted > 0 })
			w.Logf("%d of %d are missing, such as %v", len(missing), len(ids), missing[:min(5, len(missing))])
		}
	}()
	w.await(fmt.Sprintf("%d events at %s", len(ids), e.URL), patience, func() bool { return e.Accepted(ids) == len(ids) })
}

// delivery waits until the delivery of an event has a status, and returns it.
func (w *world) delivery(webhook, id string, status domain.Status) client.Delivery {
	w.Helper()
	var last client.Delivery
	defer func() {
		if w.Failed() {
			w.Logf("delivery of %s: %+v", id, last)
		}
	}()
	w.await(id+" "+string(status), patience, func() bool {
		d, ok, err := w.api.DeliveryOf(w.Context(), webhook, id)
		if err != nil {
			w.Fatalf("get delivery: %v", err)
		}
		last = d
		return ok && d.Status == status
	})
	return last
}

// quiet fails the case when an endpoint gets another POST within the time. It is used
// where nothing is to come; the longer it waits the more it proves.
func (w *world) quiet(e *sink.Endpoint, within time.Duration) {
	w.Helper()
	before := e.Posts()
	ctx, cancel := context.WithTimeout(w.Context(), within)
	defer cancel()
	if stack.Await(ctx, func() (bool, error) { return e.Posts() != before, nil }) == nil {
		w.Fatalf("%s got another POST", e.URL)
	}
}

// event is an event as a publisher has it.
type event struct {
	ID        string
	Type      domain.EventType
	Timestamp string
	Data      string
}

func (e event) body() []byte {
	return fmt.Appendf(nil, `{"id":%q,"type":%q,"timestamp":%q,"data":%s}`, e.ID, e.Type, e.Timestamp, e.Data)
}

// sameAs fails t unless a callback carries exactly the event.
func (e event) sameAs(t *testing.T, post sink.Post) {
	t.Helper()
	var got struct {
		ID        string
		Type      domain.EventType
		Timestamp string
		Data      json.RawMessage
	}
	if err := json.Unmarshal(post.Body, &got); err != nil {
		t.Errorf("%s: callback is not JSON: %v", e.ID, err)
		return
	}
	if got.ID != e.ID || post.ID != e.ID || got.Type != e.Type || got.Timestamp != e.Timestamp {
		t.Errorf("callback is %s %s %s under %s, want %s %s %s", got.ID, got.Type, got.Timestamp, post.ID, e.ID, e.Type, e.Timestamp)
	}
	if string(got.Data) != e.Data {
		t.Errorf("%s: data arrived as\n%s\nwant\n%s", e.ID, got.Data, e.Data)
	}
}

func answerWith(status int) func(sink.Post) sink.Answer {
	return func(sink.Post) sink.Answer { return sink.Answer{Status: status} }
}

// failFirst answers 500 to the first n POSTs of each id.
func failFirst(n int) func(sink.Post) sink.Answer {
	return func(p sink.Post) sink.Answer {
		if p.OfID <= n {
			return sink.Answer{Status: http.StatusInternalServerError, Body: fmt.Sprintf("failure %d", p.OfID)}
		}
		return sink.Answer{}
	}
}
