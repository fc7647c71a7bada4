// Package insight tells in numbers what became of deliveries: statistics of an account, and
// the health of a webhook. It reads rollups and what dispatchers said of circuits; it counts no
// deliveries but those that are not through.
package insight

import (
	"context"
	"math"
	"net/http"
	"time"

	"waybill.dev/services/api/internal/web"
	"waybill.dev/services/api/internal/webhooks"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/store/pipeline"
	"waybill.dev/shared/store/rollup"
)

// Rollups has what was counted.
type Rollups interface {
	Read(ctx context.Context, account string, queries ...rollup.Query) ([][]rollup.Row, error)
}

// Webhooks knows webhooks, and what is under way to them.
type Webhooks interface {
	GetWebhook(ctx context.Context, account string, id domain.WebhookID) (domain.Webhook, domain.Health, error)
	GetCircuit(ctx context.Context, id domain.WebhookID) (domain.Circuit, error)
	CountOpen(ctx context.Context, account string, id domain.WebhookID) (pipeline.OpenCounts, error)
	LastAnswers(ctx context.Context, id domain.WebhookID, most int) ([]domain.Answer, error)
}

// Options of the routes; all are required.
type Options struct {
	Rollups      Rollups
	Webhooks     Webhooks
	Retention    time.Duration // of the counts
	DisableAfter time.Duration // how long a webhook may only fail before it becomes inactive
}

// Routes returns the operations.
func Routes(options Options) []web.Route {
	h := &handlers{options}
	return []web.Route{
		{
			Method: http.MethodGet, Path: "/v1/statistics", Operation: "getStatistics", Summary: "Counts events, deliveries and attempts by time.",
			Scope: domain.ScopeEventsRead, Success: http.StatusOK, Handle: h.statistics,
		},
		{
			Method: http.MethodGet, Path: webhooks.Path + "/{id}/health", Operation: "getWebhookHealth", Summary: "Shows how a webhook's receiver is doing.",
			Scope: domain.ScopeWebhooksRead, Success: http.StatusOK, Handle: h.health,
		},
	}
}

type handlers struct{ Options }

// latency has quantiles in milliseconds.
type latency struct {
	P50 float64 `json:"p50"`
	P95 float64 `json:"p95"`
	P99 float64 `json:"p99"`
}

// latencyOf returns nil when there was no attempt.
func latencyOf(h rollup.Histogram) *latency {
	if h.Total() == 0 {
		return nil
	}
	ms := func(q float64) float64 { return math.Round(h.Quantile(q).Seconds()*1e5) / 100 }
	return &latency{ms(0.5), ms(0.95), ms(0.99)}
}
