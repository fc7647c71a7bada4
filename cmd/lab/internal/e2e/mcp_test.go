package e2e_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"waybill.dev/cmd/internal/client"
	"waybill.dev/cmd/lab/internal/sink"
	"waybill.dev/shared/domain"
)

// assistant is an AI client, by the official SDK.
type assistant struct {
	*world

	session *mcp.ClientSession
}

// keyed adds a key to each request.
type keyed struct{ key string }

func (k keyed) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+k.key)
	return http.DefaultTransport.RoundTrip(r)
}

func (w *world) assistant(key string) *assistant {
	w.Helper()
	ai := mcp.NewClient(&mcp.Implementation{Name: "assistant", Version: "1"}, nil)
	session, err := ai.Connect(w.Context(), &mcp.StreamableClientTransport{
		Endpoint: w.stack.URL + "/mcp", HTTPClient: &http.Client{Transport: keyed{key}},
	}, nil)
	if err != nil {
		w.Fatalf("connect to the MCP server: %v", err)
	}
	w.Cleanup(func() { _ = session.Close() })
	return &assistant{w, session}
}

type arguments = map[string]any

// use calls a tool and returns the text that it answers with.
func (a *assistant) use(tool string, args arguments) (text string, failed bool) {
	a.Helper()
	result, err := a.session.CallTool(a.Context(), &mcp.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		a.Fatalf("%s: %v", tool, err)
	}
	if len(result.Content) != 1 {
		a.Fatalf("%s answers with %d items", tool, len(result.Content))
	}
	content, ok := result.Content[0].(*mcp.TextContent)
	if !ok {
		a.Fatalf("%s answers with %T", tool, result.Content[0])
	}
	return content.Text, result.IsError
}

// get calls a tool that must work, and decodes what it answers.
func (a *assistant) get(tool string, args arguments, into any) {
	a.Helper()
	text, failed := a.use(tool, args)
	if failed {
		a.Fatalf("%s fails: %s", tool, text)
	}
	if into == nil {
		return
	}
	if err := json.Unmarshal([]byte(text), into); err != nil {
		a.Fatalf("%s answers with %s: %v", tool, text, err)
	}
}

// change calls update_webhook.
func (a *assistant) change(hook string, settings arguments) {
	a.Helper()
	a.get("update_webhook", arguments{"id": hook, "body": settings}, nil)
}

type why struct {
	Verdict, Summary string
	Chain            []struct{ Check, Result, Detail string }
	Delivery         struct {
		ID            string
		NextAttemptAt *time.Time
		Attempts      []struct{ Status int }
	}
}

// learns waits until the explanation has a verdict.
func (a *assistant) learns(verdict string, about arguments) (last why) {
	a.Helper()
	defer func() {
		if a.Failed() {
			a.Logf("last explained: %+v", last)
		}
	}()
	a.await("it is explained with "+verdict, patience, func() bool {
		last = why{}
		a.get("explain_delivery", about, &last)
		return last.Verdict == verdict
	})
	return last
}

// registers makes a webhook with a receiver of its own.
func (a *assistant) registers(name string, settings arguments) (*sink.Endpoint, string) {
	a.Helper()
	e := a.sink.Endpoint(name)
	a.endpoints = append(a.endpoints, e)
	if settings == nil {
		settings = arguments{}
	}
	settings["url"] = e.URL
	if settings["events"] == nil {
		settings["events"] = []domain.EventType{domain.ShipmentCreated}
	}
	var made client.Webhook
	a.get("register_webhook", settings, &made)
	if err := e.Trust(made.Secret); err != nil {
		a.Fatal(err)
	}
	return e, made.ID
}

// publishes has an event of the type that is created published, and returns its id. While the
// store is busy it does so again, with the same id.
func (a *assistant) publishes() string {
	a.Helper()
	e := a.event(domain.ShipmentCreated, "")
	a.await("the publication is accepted", patience, func() bool {
		text, failed := a.use("publish_event", arguments{"id": e.ID, "type": e.Type, "timestamp": e.Timestamp, "data": json.RawMessage(e.Data)})
		if failed && !strings.Contains(text, "UNAVAILABLE") {
			a.Fatalf("publish: %s", text)
		}
		return !failed
	})
	return e.ID
}

func between(event, webhook string) arguments {
	return arguments{"eventId": event, "webhookId": webhook}
}

// asksWhy has a client ask about each way in which an event may not arrive, and put right
// what it can, with nothing but the MCP server.
func asksWhy(w *world) {
	a := w.assistant(w.stack.Key)
	a.learns("noSuchEvent", between("evt_never", "0190c0f0-0000-7000-8000-000000000000"))
	endpoint, hook := a.registers("shop", arguments{"retryScheduleSeconds": []float64{0.2, 3600}})
	_, other := a.registers("other", arguments{"events": []domain.EventType{domain.ShipmentDelivered}})

	endpoint.Behave(answerWith(http.StatusInternalServerError))
	id := a.publishes()
	a.learns("notSubscribed", between(id, other))
	var tried why
	a.await("two attempts are explained", patience, func() bool {
		tried = a.learns("retrying", between(id, hook))
		return len(tried.Delivery.Attempts) == 2
	})
	if next := tried.Delivery.NextAttemptAt; next == nil || time.Until(*next) < 30*time.Minute || !strings.Contains(tried.Summary, "500 (Internal Server Error)") {
		a.Errorf("explained as %+v", tried)
	}
	var found struct{ Data []struct{ ID string } }
	a.get("search_deliveries", arguments{"webhookId": hook, "status": "retrying"}, &found)
	if len(found.Data) != 1 || found.Data[0].ID != tried.Delivery.ID {
		a.Errorf("found %+v, want %s", found, tried.Delivery.ID)
	}
	endpoint.Behave(nil)
	a.get("retry_delivery", arguments{"id": tried.Delivery.ID}, nil)
	if got := a.learns("delivered", arguments{"deliveryId": tried.Delivery.ID}); len(got.Delivery.Attempts) != 3 {
		a.Errorf("%d attempts, want 3", len(got.Delivery.Attempts))
	}
	a.switchedOff(endpoint, hook)
	a.givenUp()
	a.held()
	a.stranger(hook, id)
}

// switchedOff has the webhook inactive by hand and by a 410.
func (a *assistant) switchedOff(endpoint *sink.Endpoint, hook string) {
	a.Helper()
	a.change(hook, arguments{"active": false})
	byHand := a.publishes()
	a.learns("inactive", between(byHand, hook))
	var test struct{ DeliveryID string }
	a.get("send_test_event", arguments{"id": hook}, &test)
	a.learns("delivered", arguments{"deliveryId": test.DeliveryID})
	a.change(hook, arguments{"active": true})
	a.learns("delivered", between(byHand, hook))

	endpoint.Behave(answerWith(http.StatusGone))
	gone := a.publishes()
	a.learns("gone", between(gone, hook))
	endpoint.Behave(nil)
	a.change(hook, arguments{"active": true})
	a.learns("delivered", between(gone, hook))
}

// givenUp has a schedule run out, and its failures replayed.
func (a *assistant) givenUp() {
	a.Helper()
	endpoint, hook := a.registers("strict", arguments{"retryScheduleSeconds": []float64{}})
	endpoint.Behave(answerWith(http.StatusUnauthorized))
	id := a.publishes()
	a.learns("scheduleExhausted", between(id, hook))
	endpoint.Behave(nil)
	var replayed struct{ Matched int }
	a.get("replay_webhook", arguments{"id": hook, "body": arguments{"since": time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)}}, &replayed)
	if replayed.Matched != 1 {
		a.Errorf("%d are replayed, want 1", replayed.Matched)
	}
	a.learns("delivered", between(id, hook))
	a.get("delete_webhook", arguments{"id": hook}, nil)
}

// held has more due than a webhook takes, and a circuit open.
func (a *assistant) held() {
	a.Helper()
	_, slow := a.registers("slow", arguments{"ratePerSecond": 1})
	var last event
	batch := make([][]byte, 100) // in one request: a slow publisher would never have more due than the webhook takes
	for i := range batch {
		last = a.event(domain.ShipmentCreated, "")
		batch[i] = last.body()
	}
	a.submit(fmt.Appendf(nil, "[%s]", bytes.Join(batch, []byte(","))))
	ids := []string{last.ID}
	a.learns("overCapacity", between(ids[0], slow))
	a.get("delete_webhook", arguments{"id": slow}, nil)

	broken, hook := a.registers("broken", arguments{"retryScheduleSeconds": []float64{3600}})
	broken.Behave(answerWith(http.StatusInternalServerError))
	a.await("the circuit is open", 2*patience, func() bool {
		ids = append(ids, a.publish(1)...)
		d, _, err := a.api.DeliveryOf(a.Context(), hook, ids[max(0, len(ids)-10)])
		return err == nil && d.Reason != nil && *d.Reason == domain.ReasonCircuitOpen
	})
	id := a.publishes()
	if d := a.delivery(hook, id, "retrying"); len(d.Attempts) > 0 {
		id = a.publishes() // a probe was due, and that was it; the next is due in 10 s
	}
	a.learns("circuitOpen", between(id, hook))
}

// stranger is a client of another account.
func (a *assistant) stranger(hook, event string) {
	a.Helper()
	var made struct{ Key string }
	answer := a.ask(a.api, http.MethodPost, "/v1/accounts", `{"name":"other"}`, http.StatusCreated)
	if err := json.Unmarshal(answer.Body, &made); err != nil {
		a.Fatal(err)
	}
	other := a.assistant(made.Key)
	if text, _ := other.use("list_webhooks", nil); text != "[]" {
		a.Errorf("another account sees the webhooks %s", text)
	}
	other.learns("noSuchEvent", between(event, hook))
	if text, failed := other.use("delete_webhook", arguments{"id": hook}); !failed {
		a.Errorf("another account deletes: %s", text)
	}
	var mine []client.Webhook
	a.get("list_webhooks", arguments{}, &mine)
	if !slices.ContainsFunc(mine, func(h client.Webhook) bool { return h.ID == hook }) {
		a.Errorf("the webhook is gone: %+v", mine)
	}
}
