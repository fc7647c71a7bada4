package httpapi

import (
	"net/http"

	"waybill.dev/shared/domain"
)

// Limits of request bodies, in bytes. One event has a lower one, see envelope.
const (
	maxResourceBody = 1 << 20
	maxBatchBody    = 8 << 20
)

// Route is one operation: where it is, what it needs, and what answers it.
type Route struct {
	Method string
	Path   string // a {name} stands for one segment
	// Operation names it in the OpenAPI document.
	Operation string
	Summary   string
	// Scope is what the caller must have; empty: the route is open to all.
	Scope domain.Scope
	// Success is the status of a good answer.
	Success int
	handle  func(*server, *call) error
}

// Routes returns every operation. It is the only place where a path gets its handler and
// its scope.
func Routes() []Route {
	return []Route{
		{http.MethodGet, "/healthz", "checkHealth", "Tells that the process is alive, with the state of store and bus.", "", http.StatusOK, (*server).healthz},
		{http.MethodGet, "/readyz", "checkReadiness", "Tells whether requests can be served, and what is missing if not.", "", http.StatusOK, (*server).readyz},

		{http.MethodGet, "/v1/webhooks", "listWebhooks", "Lists all webhooks, the oldest first.", domain.ScopeWebhooksRead, http.StatusOK, (*server).listWebhooks},
		{http.MethodPost, "/v1/webhooks", "registerWebhook", "Registers a webhook and shows its secret, this once.", domain.ScopeWebhooksWrite, http.StatusCreated, (*server).registerWebhook},
		{http.MethodGet, "/v1/webhooks/{id}", "getWebhook", "Shows a webhook.", domain.ScopeWebhooksRead, http.StatusOK, (*server).getWebhook},
		{http.MethodPatch, "/v1/webhooks/{id}", "updateWebhook", "Changes the fields that are given.", domain.ScopeWebhooksWrite, http.StatusOK, (*server).updateWebhook},
		{http.MethodDelete, "/v1/webhooks/{id}", "deleteWebhook", "Deletes a webhook; its delivery log stays.", domain.ScopeWebhooksWrite, http.StatusNoContent, (*server).deleteWebhook},
		{http.MethodPost, "/v1/webhooks/{id}/rotate-secret", "rotateWebhookSecret", "Makes a new secret; the old one signs too for a while.", domain.ScopeWebhooksWrite, http.StatusOK, (*server).rotateSecret},
		{http.MethodPost, "/v1/webhooks/{id}/test", "testWebhook", "Sends a sample event to the webhook.", domain.ScopeEventsWrite, http.StatusAccepted, (*server).testWebhook},
		{http.MethodPost, "/v1/webhooks/{id}/replay", "replayWebhook", "Sends deliveries of a span of time again.", domain.ScopeEventsWrite, http.StatusAccepted, (*server).replayWebhook},

		{http.MethodPost, "/v1/events", "publishEvents", "Publishes one event, or an array of up to 1000.", domain.ScopeEventsWrite, http.StatusAccepted, (*server).publishEvents},
		{http.MethodGet, "/v1/events", "listEvents", "Lists events, the newest first.", domain.ScopeEventsRead, http.StatusOK, (*server).listEvents},
		{http.MethodGet, "/v1/events/{id}", "getEvent", "Shows an event with its deliveries.", domain.ScopeEventsRead, http.StatusOK, (*server).getEvent},

		{http.MethodGet, "/v1/deliveries", "listDeliveries", "Lists deliveries, the newest first.", domain.ScopeEventsRead, http.StatusOK, (*server).listDeliveries},
		{http.MethodGet, "/v1/deliveries/{id}", "getDelivery", "Shows a delivery with its attempts.", domain.ScopeEventsRead, http.StatusOK, (*server).getDelivery},
		{http.MethodPost, "/v1/deliveries/{id}/retry", "retryDelivery", "Sends a delivery again; its schedule starts anew.", domain.ScopeEventsWrite, http.StatusAccepted, (*server).retryDelivery},

		{http.MethodGet, "/v1/rejected", "listRejected", "Lists bus messages that were no events, the newest first.", domain.ScopeEventsRead, http.StatusOK, (*server).listRejected},
	}
}
