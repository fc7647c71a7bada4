package httpapi

import (
	"net/http"

	"waybill.dev/services/api/internal/auth"
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
	Scope auth.Scope
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

		{http.MethodGet, "/v1/webhooks", "listWebhooks", "Lists all webhooks, the oldest first.", auth.WebhooksRead, http.StatusOK, (*server).listWebhooks},
		{http.MethodPost, "/v1/webhooks", "registerWebhook", "Registers a webhook and shows its secret, this once.", auth.WebhooksWrite, http.StatusCreated, (*server).registerWebhook},
		{http.MethodGet, "/v1/webhooks/{id}", "getWebhook", "Shows a webhook.", auth.WebhooksRead, http.StatusOK, (*server).getWebhook},
		{http.MethodPatch, "/v1/webhooks/{id}", "updateWebhook", "Changes the fields that are given.", auth.WebhooksWrite, http.StatusOK, (*server).updateWebhook},
		{http.MethodDelete, "/v1/webhooks/{id}", "deleteWebhook", "Deletes a webhook; its delivery log stays.", auth.WebhooksWrite, http.StatusNoContent, (*server).deleteWebhook},
		{http.MethodPost, "/v1/webhooks/{id}/rotate-secret", "rotateWebhookSecret", "Makes a new secret; the old one signs too for a while.", auth.WebhooksWrite, http.StatusOK, (*server).rotateSecret},
		{http.MethodPost, "/v1/webhooks/{id}/test", "testWebhook", "Sends a sample event to the webhook.", auth.EventsWrite, http.StatusAccepted, (*server).testWebhook},
		{http.MethodPost, "/v1/webhooks/{id}/replay", "replayWebhook", "Sends deliveries of a span of time again.", auth.EventsWrite, http.StatusAccepted, (*server).replayWebhook},

		{http.MethodPost, "/v1/events", "publishEvents", "Publishes one event, or an array of up to 1000.", auth.EventsWrite, http.StatusAccepted, (*server).publishEvents},
		{http.MethodGet, "/v1/events", "listEvents", "Lists events, the newest first.", auth.EventsRead, http.StatusOK, (*server).listEvents},
		{http.MethodGet, "/v1/events/{id}", "getEvent", "Shows an event with its deliveries.", auth.EventsRead, http.StatusOK, (*server).getEvent},

		{http.MethodGet, "/v1/deliveries", "listDeliveries", "Lists deliveries, the newest first.", auth.EventsRead, http.StatusOK, (*server).listDeliveries},
		{http.MethodGet, "/v1/deliveries/{id}", "getDelivery", "Shows a delivery with its attempts.", auth.EventsRead, http.StatusOK, (*server).getDelivery},
		{http.MethodPost, "/v1/deliveries/{id}/retry", "retryDelivery", "Sends a delivery again; its schedule starts anew.", auth.EventsWrite, http.StatusAccepted, (*server).retryDelivery},

		{http.MethodGet, "/v1/rejected", "listRejected", "Lists bus messages that were no events, the newest first.", auth.EventsRead, http.StatusOK, (*server).listRejected},
	}
}
