package e2e_test

import (
	"bytes"
	"net/http"
	"strings"

	"github.com/nats-io/nats.go"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"waybill.dev/cmd/internal/client"
	"waybill.dev/cmd/lab/internal/sink"
	"waybill.dev/cmd/lab/internal/stack"
	"waybill.dev/shared/domain"
)

func verifies(w *world, secret string, post sink.Post) bool {
	v, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		w.Fatal(err)
	}
	return v.Verify(post.Body, post.Header) == nil
}

// rejected publishes messages that are no events between good ones.
func rejected(w *world) {
	endpoint, _ := w.register("all", nil)
	w.known(1)
	const created = "events.default.shipment.created"
	bad := []struct {
		subject, body string
		header        nats.Header
		reason        string // a part of it
	}{
		{created, `not JSON`, nil, ""},
		{created, ``, nil, ""},
		{created, `{"type":"shipment.created"}`, nil, "data"},
		{created, `{"type":"shipment.created","data":{"shipmentId":"s"},"extra":1}`, nil, "extra"},
		{created, `{"type":"shipment.created","type":"shipment.created","data":{"shipmentId":"s"}}`, nil, ""},
		{created, `{"type":"shipment.created","data":{"shipmentId":7}}`, nil, "shipmentId"},
		{created, `{"type":"shipment.delivered","data":{"shipmentId":"s"}}`, nil, "subject"},
		{created, "{\"type\":\"shipment.created\",\"data\":{\"shipmentId\":\"\xff\"}}", nil, ""},
		{created, `{"id":"has.dot","type":"shipment.created","data":{"shipmentId":"s"}}`, nil, "id"},
		{created, `{"id":"one","type":"shipment.created","data":{"shipmentId":"s"}}`, nats.Header{"Nats-Msg-Id": {"two"}}, "id"},
		{created, `{"type":"shipment.created","data":{"shipmentId":"` + strings.Repeat("s", 257<<10) + `"}}`, nil, ""},
		{"events.default.shipment.lost", `{"type":"shipment.created","data":{"shipmentId":"s"}}`, nil, ""},
		{"events.default.shipment", `{"type":"shipment.created","data":{"shipmentId":"s"}}`, nil, ""},
		{created, `{"shipmentId":"s"}`, nats.Header{"ce-specversion": {"1.0"}, "ce-id": {"a b"}, "ce-source": {"/s"}, "ce-type": {"shipment.created"}}, "id"},
	}
	ids := w.publish(1)
	for _, b := range bad {
		if err := w.nats.PublishMsg(&nats.Msg{Subject: b.subject, Data: []byte(b.body), Header: b.header}); err != nil {
			w.Fatalf("publish on NATS: %v", err)
		}
		e := w.event(domain.ShipmentCreated, "")
		ids = append(ids, e.ID)
		w.ways()["nats"](e)
	}
	w.arrived(endpoint, ids)
	var list []stack.Rejected
	w.await("every bad message among the rejected", patience, func() bool {
		var err error
		if list, err = w.api.Rejected(w.Context(), 100); err != nil {
			w.Fatalf("list rejected messages: %v", err)
		}
		return len(list) >= len(bad)
	})
	for _, b := range bad {
		found := false
		for _, r := range list {
			if r.Subject == b.subject && (r.Body == b.body || len(b.body) > 1<<10 && len(r.Body) > 1<<10 && strings.HasPrefix(b.body, r.Body[:1<<10]) || !validUTF8(b.body)) &&
				r.Reason != "" && strings.Contains(strings.ToLower(r.Reason), strings.ToLower(b.reason)) {
				found = true
			}
		}
		if !found {
			w.Errorf("not among the rejected with its reason: %s %.80s", b.subject, b.body)
		}
	}
	if n := endpoint.Ids(); n != len(ids) {
		w.Errorf("%d events arrived, want %d", n, len(ids))
	}
	if w.Failed() {
		for _, r := range list {
			w.Logf("%s: %s: %.80s", r.Subject, r.Reason, r.Body)
		}
	}
}

func validUTF8(text string) bool { return strings.ToValidUTF8(text, "") == text }

func refused(w *world) {
	endpoint, _ := w.register("all", nil)
	good := `{"type":"shipment.created","data":{"shipmentId":"s"}}`
	many := func(n int, odd string, at int) string {
		list := make([]string, n)
		for i := range list {
			list[i] = good
		}
		if at >= 0 {
			list[at] = odd
		}
		return "[" + strings.Join(list, ",") + "]"
	}
	for name, c := range map[string]struct {
		body   string
		status int
		part   string // what the answer must have
	}{
		"unknown field":     {`{"type":"shipment.created","data":{"shipmentId":"s"},"payload":{}}`, 400, `"/payload"`},
		"duplicate key":     {`{"type":"shipment.created","data":{"shipmentId":"s","shipmentId":"t"}}`, 400, "shipmentId"},
		"wrong type":        {`{"type":7,"data":{"shipmentId":"s"}}`, 400, `"/type"`},
		"several faults":    {`{"type":"x","timestamp":"yesterday","data":{"shipmentId":""}}`, 400, `"/timestamp"`},
		"not JSON":          {`{"type":`, 400, `"pointer":""`},
		"trailing garbage":  {good + "x", 400, ""},
		"1001 events":       {many(1001, "", -1), 400, ""},
		"no events":         {`[]`, 400, ""},
		"an event too long": {`{"type":"shipment.created","data":{"shipmentId":"s","x":"` + strings.Repeat("x", 257<<10) + `"}}`, 413, ""},
		"a bad one in 1000": {many(1000, `{"type":"shipment.lost","data":{"shipmentId":"s"}}`, 617), 400, `"/617/type"`},
		"too deep":          {`{"type":"shipment.created","data":{"shipmentId":"s","x":` + strings.Repeat("[", 70) + strings.Repeat("]", 70) + `}}`, 400, ""},
		"U+0000":            {`{"type":"shipment.created","data":{"shipmentId":"s","x":"\u0000"}}`, 400, ""},
	} {
		answer, err := w.api.Ask(w.Context(), http.MethodPost, "/v1/events", []byte(c.body), nil)
		if err != nil {
			w.Errorf("%s: %v", name, err)
			continue
		}
		if answer.Status != c.status || !bytes.Contains(answer.Body, []byte(c.part)) ||
			answer.Header.Get("Content-Type") != "application/problem+json" {
			w.Errorf("%s: answer %d %.300s, want %d with %s", name, answer.Status, answer.Body, c.status, c.part)
		}
	}
	ids := w.publish(1)
	w.arrived(endpoint, ids)
	if n := endpoint.Ids(); n != 1 {
		w.Errorf("%d events arrived, want the good one alone", n)
	}
	w.stack.Key = "wrong"
	stranger := w.stack.Client()
	defer stranger.Close()
	if _, err := stranger.Publish(w.Context(), []byte(good)); !client.IsStatus(err, http.StatusUnauthorized) {
		w.Errorf("a wrong key answers %v, want 401", err)
	}
}
