package explanations_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"waybill.dev/services/api/internal/families/explanations"
	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/shared/apikey"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/store/pipeline"
)

const (
	hookID     = "0190c0f0-0000-7000-8000-000000000000"
	between    = "eventId=evt_1&webhookId=" + hookID
	settingURL = "http://canary.example/"
)

// log has one event, one webhook and one delivery, where they are set. What failing names
// can't be read.
type log struct {
	event    *domain.Event
	webhook  *domain.Webhook
	delivery *domain.Delivery
	failing  string
}

func (l log) err(name string, there bool) error {
	switch {
	case l.failing == name:
		return domain.ErrUnavailable
	case !there:
		return domain.ErrNotFound
	}
	return nil
}

func (l log) GetEvent(context.Context, string, string) (domain.Event, error) {
	if err := l.err("event", l.event != nil); err != nil {
		return domain.Event{}, err
	}
	return *l.event, nil
}

func (l log) GetWebhook(context.Context, string, domain.WebhookID) (domain.Webhook, domain.Health, error) {
	if err := l.err("webhook", l.webhook != nil); err != nil {
		return domain.Webhook{}, domain.Health{}, err
	}
	return *l.webhook, domain.Health{}, nil
}

func (l log) GetDelivery(context.Context, string, domain.DeliveryID) (domain.Delivery, []domain.Attempt, error) {
	if err := l.err("delivery", l.delivery != nil); err != nil {
		return domain.Delivery{}, nil, err
	}
	return *l.delivery, nil, nil
}

func (l log) ListDeliveries(context.Context, pipeline.DeliveryFilter) ([]domain.Delivery, string, error) {
	return nil, "", l.err("deliveries", true)
}

func (l log) GetCircuit(context.Context, domain.WebhookID) (domain.Circuit, error) {
	return domain.Circuit{}, l.err("circuit", true)
}

func (l log) ReadBeyond(context.Context, domain.WebhookID, domain.EventKey) ([]string, error) {
	return nil, l.err("cursors", true)
}

// caller is who everybody is taken for.
type caller []domain.Scope

func (c caller) Authenticate(context.Context, string) (apikey.Principal, error) {
	return apikey.Principal{Account: "default", ID: "test", Scopes: c}, nil
}

// forgetful is an audit log that keeps nothing.
type forgetful struct{}

func (forgetful) Note(context.Context, domain.AuditEntry) {}

func explain(t *testing.T, from explanations.Log, query string, scopes ...domain.Scope) *httptest.ResponseRecorder {
	t.Helper()
	handler := web.New(web.Options{
		Routes:        explanations.Routes(explanations.Options{Log: from, RetrySchedule: []time.Duration{time.Second}}),
		Authenticator: caller(scopes), Refusals: forgetful{}, Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry(),
	})
	request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, explanations.Path+"?"+query, http.NoBody)
	request.Header.Set("X-Api-Key", "any")
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, request)
	return answer
}

func minutes(ago int) time.Time { return time.Now().Add(-time.Duration(ago) * time.Minute).UTC() }

func webhook() *domain.Webhook {
	return &domain.Webhook{
		ID: hookID, Account: "default", URL: settingURL, Events: []domain.EventType{domain.ShipmentCreated}, Active: true,
		Timeout: 27 * time.Second, MaxInFlight: 4321, CreatedAt: minutes(60), UpdatedAt: minutes(9),
	}
}

// An event that should long have had a delivery has been missed by a change of the webhook,
// or nobody has taken it up.
func TestOldEventWithoutDelivery(t *testing.T) {
	t.Parallel()
	for changed, want := range map[int]string{1: "changedLater", 9: "notDispatched"} {
		w := webhook()
		w.UpdatedAt = minutes(changed)
		event := &domain.Event{ID: "evt_1", Account: "default", Type: domain.ShipmentCreated, ReceivedAt: minutes(5)}
		answer := explain(t, log{event: event, webhook: w}, between, domain.ScopeEventsRead, domain.ScopeWebhooksRead)
		if got := answer.Body.String(); answer.Code != http.StatusOK || !strings.HasPrefix(got, `{"verdict":"`+want+`"`) {
			t.Errorf("changed %d minutes ago: %s", changed, got)
		}
	}
}

// While the store can't tell, neither can the explanation: it is no verdict that there is
// nothing.
func TestStoreIsAway(t *testing.T) {
	t.Parallel()
	event := &domain.Event{ID: "evt_1", Account: "default", Type: domain.ShipmentCreated, ReceivedAt: minutes(5)}
	delivery := &domain.Delivery{ID: "0000000000000000000000", Webhook: hookID, EventID: "evt_1", Status: domain.StatusRetrying}
	for _, c := range []struct {
		failing  string
		delivery *domain.Delivery
	}{{"event", nil}, {"delivery", nil}, {"webhook", nil}, {"deliveries", nil}, {"circuit", delivery}} {
		answer := explain(t, log{event, webhook(), c.delivery, c.failing}, between, domain.ScopeEventsRead)
		if answer.Code != http.StatusServiceUnavailable || answer.Header().Get("Retry-After") == "" {
			t.Errorf("without %s: %d %v %s", c.failing, answer.Code, answer.Header(), answer.Body)
		}
	}
}

// A delivery to a webhook that can't be read is held, and the explanation says why, to who
// may know what the webhook holds.
func TestUnreadableWebhook(t *testing.T) {
	t.Parallel()
	w := webhook()
	w.Fault = "its secret can't be opened"
	delivery := &domain.Delivery{ID: "0000000000000000000000", Webhook: hookID, EventID: "evt_1", Status: domain.StatusHeld, Reason: domain.ReasonUnreadable}
	from := log{webhook: w, delivery: delivery}
	const query = "deliveryId=0000000000000000000000"
	all := explain(t, from, query, domain.ScopeEventsRead, domain.ScopeWebhooksRead).Body.String()
	if !strings.HasPrefix(all, `{"verdict":"unreadable"`) || !strings.Contains(all, w.Fault) {
		t.Errorf("answer: %s", all)
	}
	some := explain(t, from, query, domain.ScopeEventsRead).Body.String()
	if !strings.HasPrefix(some, `{"verdict":"unreadable"`) || strings.Contains(some, w.Fault) || strings.Contains(some, "%") {
		t.Errorf("answer to who may not see webhooks: %s", some)
	}
}
