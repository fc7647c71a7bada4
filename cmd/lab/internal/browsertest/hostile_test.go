package browsertest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"waybill.dev/cmd/lab/internal/sink"
	"waybill.dev/cmd/lab/internal/stack"
)

// What others may write: a script, an image that runs one, an end of an attribute and of a text
// area, a mark that turns the direction of writing, right-to-left letters, and much without a space.
var (
	evil = `<script>alert(1)</script><img src=x onerror=alert(2)>"'></textarea></title>` + "\u202etxt.exe\u2066" + ` שלום مرحبا {{.}} javascript:alert(3)`
	long = strings.Repeat("a-name-without-an-end-", 10)
)

// hostile is an account full of what others wrote.
type hostile struct {
	t   *testing.T
	api *stack.Client
	// webhook has failed deliveries, event and delivery are one of those, shipment is its.
	webhook, event, shipment, delivery string
	bucket                             string // has consumers, meters and plans
}

// insist asks the API for something that must be done.
func (h *hostile) insist(method, path string, body any) map[string]any {
	h.t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		h.t.Fatal(err)
	}
	answer, err := h.api.Do(h.t.Context(), method, path, text)
	if err != nil {
		h.t.Fatalf("%s %s: %v", method, path, err)
	}
	out := make(map[string]any)
	_ = json.Unmarshal(answer, &out)
	return out
}

// makeHostile fills the account: webhooks, events, deliveries, jobs, rejected messages, access.
func makeHostile(t *testing.T) *hostile {
	t.Helper()
	b := &tab{T: t, world: shared}
	h := &hostile{t: t, api: shared.api, shipment: "shp_" + evil}
	bad, good := shared.sink.Endpoint("hostile-"+long[:60]), shared.sink.Endpoint("good")
	bad.Behave(func(sink.Post) sink.Answer {
		return sink.Answer{Status: http.StatusInternalServerError, Body: evil, Header: http.Header{"X-Evil": {`<img src=x onerror=alert(4)>`}, "Content-Type": {"text/html"}}}
	})
	made := h.insist(http.MethodPost, "/v1/webhooks", map[string]any{
		"url": bad.URL, "events": []string{"shipment.delivered"}, "description": evil, "retryScheduleSeconds": []int{}, "headers": map[string]string{"X-Own": evil[:25]},
	})
	h.webhook, _ = made["id"].(string)
	feed := h.insist(http.MethodGet, "/v1/webhooks/"+h.webhook+"/feed", nil)
	h.insist(http.MethodPut, "/v1/webhooks/"+h.webhook+"/cursors/warehouse", map[string]any{"cursor": feed["cursor"]})
	h.insist(http.MethodPost, "/v1/webhooks", map[string]any{"delivery": "pull", "events": []string{"shipment.delivered"}, "description": evil})
	h.insist(http.MethodPost, "/v1/webhooks", map[string]any{"url": good.URL, "events": []string{"shipment.delivered"}, "description": "שלום " + long})
	h.event = "evt_hostile_0"
	for i := range 60 {
		data := map[string]any{"shipmentId": h.shipment, evil: []any{evil, 1 << 60, nil, true}, "control": "a\u0001b\u001b[31mc", "long": long + long}
		if i > 0 {
			data["shipmentId"] = fmt.Sprintf("شحنة-%d-%s", i, long[:80])
		}
		h.insist(http.MethodPost, "/v1/events", map[string]any{"id": fmt.Sprintf("evt_hostile_%d", i), "type": "shipment.delivered", "data": data})
	}
	h.delivery = b.status(h.webhook, h.event, "failed").ID
	h.insist(http.MethodPost, "/v1/deliveries/retry", map[string]any{"webhookId": h.webhook, "shipmentId": h.shipment})
	h.access()
	h.deploy()
	h.reject()
	return h
}

func (h *hostile) access() {
	h.bucket = "hostile-" + strings.TrimSuffix(long[:100], "-")
	h.insist(http.MethodPost, "/v1/accounts/default/key-buckets", map[string]any{"name": h.bucket, "description": evil, "tags": map[string]string{"team": "שלום"}})
	consumer := "/v1/accounts/default/key-buckets/" + h.bucket + "/consumers"
	h.insist(http.MethodPost, consumer, map[string]any{"name": "hostile", "description": evil, "scopes": []string{"events:read", "webhooks:read"}, "metadata": map[string]any{evil: evil}})
	consumer += "/hostile"
	h.insist(http.MethodPost, consumer+"/keys", map[string]any{"description": evil})
	h.insist(http.MethodPost, consumer+"/managers", map[string]any{"email": "ada@example.com", "sub": evil})
	h.meter("/v1/accounts/default/key-buckets/" + h.bucket)
}

// meter gives the consumer of a bucket a plan whose texts mean ill, and makes a draft.
func (h *hostile) meter(bucket string) {
	h.t.Helper()
	h.insist(http.MethodPost, bucket+"/meters", map[string]any{"slug": "hostile_meter", "name": evil, "description": evil, "aggregation": "COUNT", "eventType": "hostile", "groupBy": map[string]any{"route": "$.route"}})
	h.insist(http.MethodPost, bucket+"/features", map[string]any{"key": "hostile_feature", "name": evil, "meterSlug": "hostile_meter"})
	card := map[string]any{"type": "flat_fee", "key": "hostile_card", "name": evil, "featureKey": "hostile_feature", "entitlementTemplate": map[string]any{"type": "metered", "issueAfterReset": 0}}
	for _, publish := range []bool{true, false} {
		made := h.insist(http.MethodPost, bucket+"/plans", map[string]any{"key": "hostile_plan", "name": evil + long[:60], "currency": "USD", "billingCadence": "P1M", "phases": []any{map[string]any{"key": "only", "name": evil, "rateCards": []any{card}}}})
		if publish {
			h.insist(http.MethodPost, fmt.Sprintf("%s/plans/%s/publish", bucket, made["id"]), nil)
		}
	}
	h.insist(http.MethodPut, bucket+"/consumers/hostile/subscription", map[string]any{"planKey": "hostile_plan"})
}

// deploy makes a project with a deployment that is not uploaded yet, and a variable of its branch.
func (h *hostile) deploy() {
	h.insist(http.MethodPost, "/v1/projects", map[string]any{"name": "desk"})
	h.insist(http.MethodPost, "/v1/deployments/sources", map[string]any{"accountName": "default", "projectName": "desk", "branchName": "main"})
	h.insist(http.MethodPost, "/v1/accounts/default/projects/desk/branches/main/variables", map[string]any{"name": "EVIL", "isSecret": false, "value": evil + long})
}

// reject publishes on the bus what is no event.
func (h *hostile) reject() {
	h.t.Helper()
	bus, err := nats.Connect(shared.stack.NATSURL)
	if err != nil {
		h.t.Fatalf("connect to the bus: %v", err)
	}
	defer bus.Close()
	for _, text := range []string{evil, `{"id":"` + evil + `"}`, "\x00\x01\xff\xfe binary"} {
		if err := bus.Publish("events.default.shipment.created", []byte(text)); err != nil {
			h.t.Fatalf("publish on the bus: %v", err)
		}
	}
	if err := bus.Flush(); err != nil {
		h.t.Fatalf("publish on the bus: %v", err)
	}
	b := &tab{T: h.t, world: shared}
	b.soon("the rejected messages are listed", func() (bool, error) {
		list, err := h.api.Rejected(h.t.Context(), 10)
		return len(list) >= 3, err
	})
}
