package index

import (
	"sync/atomic"
	"time"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/filter"
)

// Preparation is the part of a webhook that deliveries need beyond its fields.
type Preparation any

// Prepare compiles a webhook for deliveries. It runs once for each change.
type Prepare func(*domain.Webhook) (Preparation, error)

// Config is one state of a webhook; it never changes.
type Config struct {
	*domain.Webhook
	Preparation Preparation
	Filter      *filter.Filter // nil: every event of its types
}

// Hook is a webhook in memory. It stays the same while its configuration changes.
type Hook struct {
	ID      domain.WebhookID
	Account string
	config  atomic.Pointer[Config]
	health  atomic.Pointer[domain.Health]
	dropped bool // dropped from its lists while these are made again; only the loading goroutine uses it
}

// Config returns the present configuration.
func (h *Hook) Config() *Config { return h.config.Load() }

// Health returns the present health.
func (h *Hook) Health() domain.Health {
	if p := h.health.Load(); p != nil {
		return *p
	}
	return domain.Health{Webhook: h.ID}
}

// SetFailing notes here since when the receiver has only failed; zero: it succeeded.
// The caller records it.
func (h *Hook) SetFailing(since time.Time) {
	health := h.Health()
	health.FailingSince, health.UpdatedAt = since, time.Now()
	h.setHealth(health)
}

// SeeCertificate notes here what a connection saw of the receiver's certificate, and reports
// whether that is new; then the caller records it. A certificate that was seen before the URL last
// changed is that of another receiver.
func (h *Hook) SeeCertificate(seen domain.Certificate, urlVersion int64, now time.Time) bool {
	health := h.health.Load()
	if health == nil && seen.ExpiresAt.IsZero() {
		return false
	}
	known := h.Health()
	current := known.CertificateVersion >= urlVersion
	if seen.ExpiresAt.Equal(known.CertificateExpiresAt) && (current || seen.ExpiresAt.IsZero()) {
		return false
	}
	known.CertificateExpiresAt, known.CertificateVersion, known.UpdatedAt = seen.ExpiresAt, seen.Version, now
	return h.setHealth(known)
}

// setHealth keeps the newer of two healths. It never takes a disablement back, because an
// activation has a higher version.
func (h *Hook) setHealth(health domain.Health) bool {
	for {
		old := h.health.Load()
		if old != nil {
			if health.DisabledVersion < old.DisabledVersion {
				health.DisabledVersion, health.DisabledReason, health.DisabledAt = old.DisabledVersion, old.DisabledReason, old.DisabledAt
				health.DisabledUntil = old.DisabledUntil
			}
			if health.UpdatedAt.Before(old.UpdatedAt) {
				health.FailingSince, health.UpdatedAt = old.FailingSince, old.UpdatedAt
				health.CertificateExpiresAt, health.CertificateVersion = old.CertificateExpiresAt, old.CertificateVersion
			}
			if health == *old {
				return false
			}
		}
		if h.health.CompareAndSwap(old, &health) {
			return true
		}
	}
}

// Inactive reports whether the webhook gets no events. Tests may still be sent to it, unless
// its configuration has a Fault.
func (h *Hook) Inactive() bool {
	config := h.Config()
	_, inactive := config.Inactive(h.Health())
	return inactive || config.Fault != ""
}
