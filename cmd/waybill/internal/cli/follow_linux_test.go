package cli_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"waybill.dev/cmd/waybill/internal/cli"
)

// installation answers as one with two webhooks for shipment.created would: one takes the
// event at the second look, the other refuses it.
func installation(t *testing.T, looks *atomic.Int64) string {
	t.Helper()
	mux := http.NewServeMux()
	answer := func(pattern string, text func(*http.Request) string) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { _, _ = fmt.Fprint(w, text(r)) })
	}
	answer("POST /v1/events", func(*http.Request) string { return `{"events":[{"id":"evt_1","duplicate":false}]}` })
	answer("GET /v1/webhooks", func(r *http.Request) string {
		if r.URL.Query().Get("offset") != "0" {
			return `[]`
		}
		return `[{"id":"a","url":"https://good.example/x","events":["shipment.created"],"active":true},
			{"id":"b","url":"https://bad.example/x","events":["shipment.created"],"active":true},
			{"id":"c","url":"https://other.example/x","events":["shipment.delivered"],"active":true}]`
	})
	list := []map[string]any{
		{"id": "d1", "webhookId": "a", "status": "pending", "attemptCount": 0},
		{"id": "d2", "webhookId": "b", "status": "pending", "attemptCount": 0},
	}
	answer("GET /v1/deliveries", func(*http.Request) string {
		if looks.Add(1) == 2 {
			list[0]["status"], list[1]["status"] = "delivered", "retrying"
			list[1]["nextAttemptAt"] = "2026-12-01T10:11:12.345Z"
		}
		text, _ := json.Marshal(map[string]any{"data": list})
		return string(text)
	})
	answer("GET /v1/deliveries/d1", func(*http.Request) string {
		return `{"id":"d1","webhookId":"a","status":"delivered","attempts":[{"number":1,"status":204,"durationMs":12}]}`
	})
	answer("GET /v1/deliveries/d2", func(*http.Request) string {
		return `{"id":"d2","webhookId":"b","status":"retrying","nextAttemptAt":"2026-12-01T10:11:12.345Z","attempts":[{"number":1,"error":"no answer in time","durationMs":15000}]}`
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL
}

func TestTriggerFollowsTheEventOnATerminal(t *testing.T) {
	t.Parallel()
	var looks atomic.Int64
	tty, person := columned(t, 80)
	code := cli.Main("test", []string{"waybill", "trigger", "shipment.created", "--server", installation(t, &looks), "--key", apiKey}, tty, tty, tty)
	if _, err := tty.WriteString("that-was-all\n"); err != nil {
		t.Fatal(err)
	}
	said := until(t, person, "that-was-all")
	for _, want := range []string{
		"evt_1", "2 webhooks get shipment.created.", "good.example  delivered: answered 204 in 12 ms",
		"bad.example  retrying: no answer in time; the next attempt is ", "Why: waybill deliveries explain d2",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("%q is not in\n%s", want, said)
		}
	}
	if code != 0 || looks.Load() != 2 {
		t.Errorf("exit code %d after %d looks", code, looks.Load())
	}
}

func TestTriggerFollowsNothingInAPipe(t *testing.T) {
	t.Parallel()
	var looks atomic.Int64
	code, out, notes := waybill("trigger", "shipment.created", "--server", installation(t, &looks), "--key", apiKey)
	if code != 0 || looks.Load() != 0 || notes != "2 webhooks get shipment.created.\n" || !strings.Contains(out, "evt_1") {
		t.Errorf("exit code %d after %d looks\n%s%s", code, looks.Load(), out, notes)
	}
	_, _, notes = waybill("trigger", "shipment.exception", "--server", installation(t, &looks), "--key", apiKey)
	if want := "No webhook is registered for shipment.exception. Register one: waybill webhooks create URL\n"; notes != want {
		t.Errorf("notes %q, want %q", notes, want)
	}
}
