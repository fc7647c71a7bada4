package selfapi_test

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"waybill.dev/services/api/internal/selfapi"
)

// canned is an API whose answers are known beforehand, by their paths. What has no answer
// does not exist.
type canned map[string]string

func (c canned) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	text, ok := c[r.URL.Path]
	switch {
	case !ok:
		w.WriteHeader(http.StatusNotFound)
	case text == "":
		w.Header().Set("Retry-After", "2")
		w.WriteHeader(http.StatusServiceUnavailable)
	default:
		_, _ = io.WriteString(w, text)
	}
}

func explain(t *testing.T, api canned, query string) *selfapi.Response {
	t.Helper()
	values, err := url.ParseQuery(query)
	if err != nil {
		t.Fatal(err)
	}
	functions := selfapi.New(selfapi.Options{API: api})
	response, err := functions[selfapi.ExportExplain].Handle(t.Context(), &selfapi.Request{Query: values, Principal: holder()})
	if err != nil {
		t.Fatal(err)
	}
	return response
}

const (
	hookID   = "0190c0f0-0000-7000-8000-000000000000"
	question = "eventId=evt_1&webhookId=" + hookID
)

// An event that should long have had a delivery has been missed by a change of the webhook,
// or nobody has taken it up.
func TestOldEventWithoutDelivery(t *testing.T) {
	t.Parallel()
	minutes := func(ago int) string {
		return time.Now().Add(-time.Duration(ago) * time.Minute).UTC().Format("2006-01-02T15:04:05.000Z")
	}
	for changed, want := range map[int]string{1: "changedLater", 9: "notDispatched"} {
		response := explain(t, canned{
			"/v1/deliveries": `{"data":[],"nextCursor":null}`,
			"/v1/events/evt_1": `{"id":"evt_1","type":"shipment.created","timestamp":"2026-01-01T00:00:00Z","data":{},"receivedAt":"` +
				minutes(5) + `","deliveries":[{"id":"0000000000000000000000","test":false}]}`,
			"/v1/webhooks/" + hookID: `{"id":"` + hookID + `","url":"http://x/","events":["shipment.created"],"active":true,"disabledReason":null,` +
				`"createdAt":"` + minutes(60) + `","updatedAt":"` + minutes(changed) + `"}`,
		}, question)
		if got := string(response.Body); response.Status != http.StatusOK || !strings.HasPrefix(got, `{"verdict":"`+want+`"`) {
			t.Errorf("changed %d minutes ago: %s", changed, got)
		}
	}
}

// While the API can't tell, neither can the explanation: it is no verdict that there is
// nothing.
func TestExplainedByAnAPIThatIsAway(t *testing.T) {
	t.Parallel()
	delivery := `{"id":"0000000000000000000000","webhookId":"` + hookID + `","eventId":"evt_1","eventType":"shipment.created","status":"pending","attempts":[]}`
	for name, api := range map[string]canned{
		"deliveries": {"/v1/deliveries": ""},
		"event":      {"/v1/deliveries": `{"data":[]}`, "/v1/events/evt_1": ""},
		"webhook":    {"/v1/deliveries": `{"data":[{"id":"0000000000000000000000"}]}`, "/v1/deliveries/0000000000000000000000": delivery, "/v1/webhooks/" + hookID: ""},
	} {
		if got := explain(t, api, question); got.Status != http.StatusServiceUnavailable || got.Header.Get("Retry-After") != "2" {
			t.Errorf("without %s: %d %v %s", name, got.Status, got.Header, got.Body)
		}
	}
}

// A delivery to a webhook that can't be read is held, and the explanation says why.
func TestExplainedByAFault(t *testing.T) {
	t.Parallel()
	response := explain(t, canned{
		"/v1/deliveries/0000000000000000000000": `{"id":"0000000000000000000000","webhookId":"` + hookID + `","eventId":"evt_1","eventType":"shipment.created",` +
			`"status":"held","reason":"webhookUnreadable","attempts":[]}`,
		"/v1/webhooks/" + hookID: `{"id":"` + hookID + `","url":"http://x/","events":["shipment.created"],"active":true,"disabledReason":null,"fault":"its secret can't be opened"}`,
	}, "deliveryId=0000000000000000000000")
	if got := string(response.Body); response.Status != http.StatusOK || !strings.HasPrefix(got, `{"verdict":"unreadable"`) || !strings.Contains(got, "its secret can't be opened") {
		t.Errorf("answer: %s", got)
	}
}
