// Package webhooks has the webhooks of an account: the addresses of callbacks, their event types,
// and their settings.
package webhooks

import (
	"context"
	"net/http"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"waybill.dev/services/api/internal/families/receivers"
	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/news"
	"waybill.dev/shared/receiverauth"
	"waybill.dev/shared/store/auditlog"
	"waybill.dev/shared/store/pipeline"
)

// Path is the path of webhooks.
const Path = "/v1/webhooks"

// Bounds of requests.
const (
	defaultOverlap = 86_400 // seconds
	maxOverlap     = 604_800
	maxOffset      = 1 << 30
)

// Store keeps webhooks.
type Store interface {
	CreateWebhook(ctx context.Context, w domain.Webhook, once *pipeline.WebhookOnce) (domain.Webhook, *pipeline.StoredResponse, error)
	ListTroubled(ctx context.Context, account string, since time.Time, limit, offset int) ([]domain.Webhook, []domain.Health, error)
	ListWebhooks(ctx context.Context, account string, limit, offset int) ([]domain.Webhook, []domain.Health, int, error)
	GetWebhook(ctx context.Context, account string, id domain.WebhookID) (domain.Webhook, domain.Health, error)
	UpdateWebhook(ctx context.Context, account string, id domain.WebhookID, change func(*domain.Webhook) error) (domain.Webhook, domain.Health, error)
	DeleteWebhook(ctx context.Context, account string, id domain.WebhookID) error
	EndPushed(ctx context.Context, webhooks ...domain.WebhookID) (int, error)
	Acknowledge(ctx context.Context, account string, id domain.WebhookID, a domain.Acknowledgement) error
	Reopen(ctx context.Context, account string, id domain.WebhookID) error
	ConfigVersion(ctx context.Context) (int64, error)
}

// Receivers reports the health of webhooks' receivers.
type Receivers interface {
	List(ctx context.Context, account string, webhooks []domain.Webhook, healths []domain.Health) ([]receivers.Health, error)
}

// Bus notifies the dispatchers of changes.
type Bus interface {
	Announce(subject string, body []byte)
	AnnounceAnswered(ctx context.Context, subject string, body []byte, quiet, limit time.Duration) int
}

// Egress decides where callbacks may go and which headers they may carry. Its errors are
// shown to callers.
type Egress interface {
	CheckURL(raw string) error
	Origin(raw string) (string, error)
	ValidHeader(name, value string) error
}

// Options of the routes; all are required.
type Options struct {
	Store         Store
	Receivers     Receivers
	Events        Events
	Bus           Bus
	Egress        Egress
	RetrySchedule []time.Duration // default of the installation
	Retention     time.Duration   // the maximum length of a schedule
}

// Routes returns the operations.
func Routes(options Options) []web.Route {
	h := &handlers{options}
	return []web.Route{
		{
			Method: http.MethodGet, Path: Path, Operation: "listWebhooks",
			Scope: domain.ScopeWebhooksRead, Handle: h.list,
			News: []news.Kind{news.Webhook, news.Delivery}, // news of their health
		},
		{
			Method: http.MethodPost, Path: Path, Operation: "registerWebhook",
			Scope: domain.ScopeWebhooksWrite, Action: auditlog.ActionCreateWebhook, Tells: []news.Kind{news.Webhook}, Handle: h.register,
		},
		{
			Method: http.MethodGet, Path: Path + "/{id}", Operation: "getWebhook",
			Scope: domain.ScopeWebhooksRead, Handle: h.get,
		},
		{
			Method: http.MethodPatch, Path: Path + "/{id}", Operation: "updateWebhook",
			Scope: domain.ScopeWebhooksWrite, Action: auditlog.ActionUpdateWebhook, Tells: []news.Kind{news.Webhook}, Handle: h.update,
		},
		{
			Method: http.MethodDelete, Path: Path + "/{id}", Operation: "deleteWebhook",
			Scope: domain.ScopeWebhooksWrite, Action: auditlog.ActionDeleteWebhook, Tells: []news.Kind{news.Webhook, news.Delivery}, Handle: h.delete,
		},
		{
			Method: http.MethodPost, Path: Path + "/{id}/rotate-secret", Operation: "rotateWebhookSecret",
			Scope: domain.ScopeWebhooksWrite, Action: auditlog.ActionRotateSecret, Tells: []news.Kind{news.Webhook}, Handle: h.rotateSecret,
		},
		{
			Method: http.MethodPut, Path: Path + "/{id}/acknowledgement", Operation: "acknowledgeProblem",
			Scope: domain.ScopeWebhooksWrite, Action: auditlog.ActionAcknowledgeProblem, Tells: []news.Kind{news.Webhook}, Handle: h.acknowledge,
		},
		{
			Method: http.MethodDelete, Path: Path + "/{id}/acknowledgement", Operation: "reopenProblem",
			Scope: domain.ScopeWebhooksWrite, Action: auditlog.ActionReopenProblem, Tells: []news.Kind{news.Webhook}, Handle: h.reopen,
		},
		{
			Method: http.MethodPost, Path: Path + "/{id}/filter/test", Operation: "testWebhookFilter",
			Scope: domain.ScopeWebhooksRead, And: domain.ScopeEventsRead, Long: true, Handle: h.testFilter,
		},
	}
}

type handlers struct{ Options }

// Webhook is a webhook as callers see it.
type Webhook struct {
	ID                   domain.WebhookID       `json:"id"`
	URL                  *string                `json:"url"`
	Events               []domain.EventType     `json:"events"`
	Active               bool                   `json:"active"`
	DisabledReason       *domain.DisabledReason `json:"disabledReason"`
	Fault                string                 `json:"fault,omitzero"`
	Description          string                 `json:"description"`
	HeaderNames          []string               `json:"headerNames"`
	RetryScheduleSeconds []float64              `json:"retryScheduleSeconds"`
	TimeoutSeconds       float64                `json:"timeoutSeconds"`
	MaxInFlight          int                    `json:"maxInFlight"`
	RatePerSecond        *float64               `json:"ratePerSecond"`
	Signing              domain.Signing         `json:"signing"`
	Ordering             domain.Ordering        `json:"ordering"`
	OrderingMaxWait      float64                `json:"orderingMaxWaitSeconds"`
	AuthType             *receiverauth.Type     `json:"authType"`
	AuthCertificate      *Certificate           `json:"authCertificate,omitzero"`
	Filter               jsontext.Value         `json:"filter"`
	Delivery             domain.DeliveryMode    `json:"delivery"`
	// Times of things that expire soon.
	ReceiverCertificateExpiresAt *string `json:"receiverCertificateExpiresAt,omitzero"`
	PreviousSecretExpiresAt      *string `json:"previousSecretExpiresAt,omitzero"`

	CreatedAt *string           `json:"createdAt"`
	UpdatedAt *string           `json:"updatedAt"`
	Health    *receivers.Health `json:"health,omitzero"`
	Secret    string            `json:"secret,omitzero"`
}

func (h *handlers) view(w domain.Webhook, health domain.Health) Webhook {
	v := Webhook{
		ID: w.ID, URL: shownURL(w.URL), Events: w.Events, Active: true, Fault: w.Fault, Description: w.Description,
		HeaderNames: make([]string, 0, len(w.Headers)), TimeoutSeconds: w.Timeout.Seconds(),
		MaxInFlight: w.MaxInFlight, RatePerSecond: w.RatePerSecond, Signing: w.Signing, Filter: shownFilter(&w), Delivery: w.Delivery,
		Ordering: w.Ordering, OrderingMaxWait: w.OrderingMaxWait.Seconds(),
		CreatedAt: web.Stamp(w.CreatedAt), UpdatedAt: web.Stamp(w.UpdatedAt),
	}
	if reason, inactive := w.Inactive(health); inactive {
		v.Active, v.DisabledReason = false, &reason
	}
	v.showAuth(w.Auth)
	if health.CertificateVersion >= w.URLVersion {
		v.ReceiverCertificateExpiresAt = web.Stamp(health.CertificateExpiresAt)
	}
	if w.PreviousSecret != "" && time.Now().Before(w.PreviousSecretExpiresAt) {
		v.PreviousSecretExpiresAt = web.Stamp(w.PreviousSecretExpiresAt)
	}
	for _, header := range w.Headers {
		v.HeaderNames = append(v.HeaderNames, header.Name)
	}
	waits := w.Schedule(h.RetrySchedule)
	v.RetryScheduleSeconds = make([]float64, 0, len(waits))
	for _, wait := range waits {
		v.RetryScheduleSeconds = append(v.RetryScheduleSeconds, wait.Seconds())
	}
	return v
}

func (h *handlers) get(c *web.Call) error {
	id := web.ID(c, domain.ParseWebhookID)
	health := includesHealth(c.Query())
	if err := c.Check(); err != nil {
		return err
	}
	w, known, err := h.Store.GetWebhook(c.Context(), c.Principal.Account, id)
	if err != nil {
		return err
	}
	views, err := h.views(c, []domain.Webhook{w}, []domain.Health{known}, health)
	if err != nil {
		return err
	}
	return c.Answer(http.StatusOK, views[0])
}
