package httpapi

import (
	"context"
	"time"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store/pipeline"
)

// Store is what the handlers ask of the database.
type Store interface {
	Ping(ctx context.Context) error
	Pending(ctx context.Context) (bool, error)

	webhookStore
	logStore
	requestStore
	accountStore
	bucketStore
	consumerStore
	keyStore
}

type webhookStore interface {
	CreateWebhook(ctx context.Context, w domain.Webhook, once *pipeline.WebhookOnce) (domain.Webhook, *pipeline.StoredResponse, error)
	ListWebhooks(ctx context.Context, account string, limit, offset int) ([]domain.Webhook, []domain.Health, int, error)
	GetWebhook(ctx context.Context, account string, id domain.WebhookID) (domain.Webhook, domain.Health, error)
	UpdateWebhook(ctx context.Context, account string, id domain.WebhookID, change func(*domain.Webhook) error) (domain.Webhook, domain.Health, error)
	DeleteWebhook(ctx context.Context, account string, id domain.WebhookID) error
	ConfigVersion(ctx context.Context) (int64, error)
}

// logStore has events and deliveries.
type logStore interface {
	ListEvents(ctx context.Context, filter pipeline.EventFilter) ([]domain.Event, string, error)
	GetEvent(ctx context.Context, account, id string) (domain.Event, error)
	ListDeliveries(ctx context.Context, filter pipeline.DeliveryFilter) ([]domain.Delivery, string, error)
	GetDelivery(ctx context.Context, account string, id domain.DeliveryID) (domain.Delivery, []domain.Attempt, error)
}

// requestStore takes what the relay is asked to do.
type requestStore interface {
	RequestTest(ctx context.Context, e domain.Event, w domain.WebhookID) (domain.DeliveryID, error)
	RequestRetry(ctx context.Context, account string, id domain.DeliveryID) (domain.Delivery, error)
	RequestReplay(ctx context.Context, account string, webhook domain.WebhookID, since, until time.Time, which pipeline.ReplayStatus) (pipeline.Replay, error)
}
