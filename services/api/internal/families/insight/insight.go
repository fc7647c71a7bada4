// Package insight has the numbers about deliveries: statistics of an account, and the health of a
// webhook.
package insight

import (
	"context"
	"net/http"

	"waybill.dev/services/api/internal/families/receivers"
	"waybill.dev/services/api/internal/families/webhooks"
	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/store/rollup"
)

// Rollups has the counts.
type Rollups interface {
	Read(ctx context.Context, account string, queries ...rollup.Query) ([][]rollup.Row, error)
}

// Webhooks knows webhooks.
type Webhooks interface {
	GetWebhook(ctx context.Context, account string, id domain.WebhookID) (domain.Webhook, domain.Health, error)
}

// Receivers reports the health of webhooks' receivers.
type Receivers interface {
	One(ctx context.Context, w domain.Webhook, health domain.Health) (receivers.Health, error)
}

// Options of the routes; all are required.
type Options struct {
	Rollups   Rollups
	Webhooks  Webhooks
	Receivers Receivers
}

// Routes returns the operations.
func Routes(options Options) []web.Route {
	h := &handlers{options}
	return []web.Route{
		{
			Method: http.MethodGet, Path: "/v1/statistics", Operation: "getStatistics",
			Scope: domain.ScopeEventsRead, Handle: h.statistics,
		},
		{
			Method: http.MethodGet, Path: webhooks.Path + "/{id}/health", Operation: "getWebhookHealth",
			Scope: domain.ScopeWebhooksRead, Handle: h.health,
		},
	}
}

type handlers struct{ Options }
