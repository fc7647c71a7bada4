// Package expiring lists the things of an account that expire soon: certificates, keys, and secrets
// that have been replaced.
package expiring

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/shared/domain"
)

const path = "/v1/expiring"

// most bounds the list. Things beyond it expire later than those in it.
const most = 1000

// Store has the times at which things expire. Of each kind it returns at most limit, the soonest
// first.
type Store interface {
	Expiring(ctx context.Context, account string, now time.Time, limit int) ([]domain.Expiry, error)
	ExpiringKeys(ctx context.Context, account string, now time.Time, limit int) ([]domain.Expiry, error)
	ExpiringCertificates(ctx context.Context, account string, now time.Time, limit int) ([]domain.Expiry, error)
	ExpiringDomains(ctx context.Context, account string, limit int) ([]domain.Expiry, error)
	ExpiringClientCAs(ctx context.Context, account string, now time.Time, limit int) ([]domain.Expiry, error)
}

// Routes returns the operations.
func Routes(store Store) []web.Route {
	h := &handlers{store}
	return []web.Route{{
		Method: http.MethodGet, Path: path, Operation: "listExpiring",
		Scope: domain.ScopeWebhooksRead, Handle: h.list,
	}}
}

type handlers struct{ store Store }

// Ending is something that expires, as callers see it.
type Ending struct {
	Kind         domain.ExpiryKind `json:"kind"`
	ExpiresAt    *string           `json:"expiresAt"`
	WebhookID    domain.WebhookID  `json:"webhookId,omitzero"`
	URL          string            `json:"url,omitzero"`
	SigningKeyID string            `json:"signingKeyId,omitzero"`
	BucketName   string            `json:"bucketName,omitzero"`
	ConsumerName string            `json:"consumerName,omitzero"`
	KeyID        string            `json:"keyId,omitzero"`
	Hostname     string            `json:"hostname,omitzero"`
	CA           string            `json:"caCertificateId,omitzero"`
	CAName       string            `json:"caCertificateName,omitzero"`
	Advice       string            `json:"advice"`
}

// List has the things that expire soonest.
type List[V any] struct {
	Data []V  `json:"data"`
	More bool `json:"more"` // things that expire later are left out
}

func show(e domain.Expiry) Ending {
	v := Ending{
		Kind: e.Kind, ExpiresAt: web.Stamp(e.At), WebhookID: e.Webhook, URL: e.URL,
		BucketName: e.Bucket, ConsumerName: e.Consumer, Hostname: e.Hostname, Advice: advice(e.Kind),
	}
	switch e.Kind {
	case domain.ExpirySigningKey:
		v.SigningKeyID = e.Key
	case domain.ExpiryAPIKey:
		v.KeyID = e.Key
	case domain.ExpiryClientCA:
		v.CA, v.CAName = e.Key, e.Name
	case domain.ExpiryReceiverCertificate, domain.ExpiryClientCertificate, domain.ExpiryWebhookSecret, domain.ExpiryDomainCertificate, domain.ExpiryCustomDomain:
	}
	return v
}

// advice says what to do before a thing expires.
func advice(kind domain.ExpiryKind) string {
	return map[domain.ExpiryKind]string{
		domain.ExpiryReceiverCertificate: "Renew the receiver's TLS certificate. Callbacks fail once it has ended.",
		domain.ExpiryClientCertificate:   "Set the webhook's auth with a new certificate. Its receiver refuses callbacks once this one has ended.",
		domain.ExpiryWebhookSecret:       "Give the receiver the new secret. Callbacks are signed with that one alone once the previous one has ended.",
		domain.ExpirySigningKey:          "Give receivers the new public key. This key signs no callbacks once it has ended.",
		domain.ExpiryDomainCertificate:   "Upload a new certificate for the hostname, or set its CNAME record so that the certificate authority can renew this one. Clients refuse the hostname once it has ended.",
		domain.ExpiryCustomDomain:        "Set the TXT record of the hostname again. Another account has a newer proof, and gets the hostname otherwise.",
		domain.ExpiryAPIKey:              "Give whoever uses this key another one, or set a later expiresOn. Requests with it are refused once it has ended.",
		domain.ExpiryClientCA:            "Upload the CA's new certificate, then delete this one. Its clients are refused once it has ended.",
	}[kind]
}

// list shows the things that expire, the soonest first. API keys, certificates of custom domains,
// hostnames and CA certificates are shown to callers that may read them.
func (h *handlers) list(c *web.Call) error {
	if err := c.Check(); err != nil {
		return err
	}
	now, account := time.Now(), c.Principal.Account
	found, err := h.store.Expiring(c.Context(), account, now, most+1)
	if err != nil {
		return err
	}
	if c.Principal.May(domain.ScopeBucketsRead) {
		keys, err := h.store.ExpiringKeys(c.Context(), account, now, most+1)
		if err != nil {
			return err
		}
		found = append(found, keys...)
	}
	if c.Principal.May(domain.ScopeGatewayRead) {
		certificates, err := h.store.ExpiringCertificates(c.Context(), account, now, most+1)
		if err != nil {
			return err
		}
		hostnames, err := h.store.ExpiringDomains(c.Context(), account, most+1)
		if err != nil {
			return err
		}
		found = append(append(found, certificates...), hostnames...)
		authorities, err := h.store.ExpiringClientCAs(c.Context(), account, now, most+1)
		if err != nil {
			return err
		}
		found = append(found, authorities...)
	}
	slices.SortStableFunc(found, func(a, b domain.Expiry) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Webhook, b.Webhook)) })
	shown, err := web.Fitting(found[:min(len(found), most)], show)
	if err != nil {
		return err
	}
	return c.Answer(http.StatusOK, List[jsontext.Value]{shown, len(shown) < len(found)})
}
