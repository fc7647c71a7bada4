package index

import (
	"encoding/json"
	"time"

	"waybill.dev/shared/domain"
)

// maxAhead is how many announcements about unknown webhooks are kept.
const maxAhead = 1024

// healthNews is the body of an announcement about a webhook's health.
type healthNews struct {
	Webhook         domain.WebhookID      `json:"webhook"`
	DisabledVersion int64                 `json:"disabledVersion,omitempty"`
	Reason          domain.DisabledReason `json:"reason,omitempty"`
	At              time.Time             `json:"at"`
}

// Disable marks a webhook as disabled here and notifies the other dispatchers. The caller
// records it.
func (x *Index) Disable(hook *Hook, change domain.HealthChange) {
	x.disable(hook, change.DisabledVersion, change.DisabledReason, change.At)
	body, err := json.Marshal(healthNews{hook.ID, change.DisabledVersion, change.DisabledReason, change.At})
	if err == nil {
		x.options.Announcer.Announce(x.options.HealthSubject, body)
	}
}

// QuotaUsedUp marks a webhook as disabled because a quota is used up, here and in the other dispatchers. The database
// has the change already.
func (x *Index) QuotaUsedUp(change domain.HealthChange) {
	body, err := json.Marshal(healthNews{change.Webhook, change.DisabledVersion, change.DisabledReason, change.At})
	if err != nil {
		return // a poll finds it
	}
	x.heardHealth(body)
	x.options.Announcer.Announce(x.options.HealthSubject, body)
}

func (x *Index) heardHealth(body []byte) {
	var news healthNews
	if err := json.Unmarshal(body, &news); err != nil || news.DisabledVersion == 0 {
		x.Poke()
		return
	}
	x.mu.Lock()
	hook, known := x.hooks[news.Webhook]
	if !known {
		// The webhook was made a moment ago: another dispatcher knows it already and has found its receiver gone. The
		// webhook's health may reach the database after the webhook is read from there.
		if len(x.ahead) >= maxAhead {
			clear(x.ahead)
		}
		x.ahead[news.Webhook] = news
	}
	x.mu.Unlock()
	if !known {
		x.Poke()
		return
	}
	x.disable(hook, news.DisabledVersion, news.Reason, news.At)
}

func (x *Index) disable(hook *Hook, version int64, reason domain.DisabledReason, at time.Time) {
	if !hook.disable(version, reason, at) {
		return
	}
	for _, handle := range x.changes {
		handle(hook)
	}
}

// disable marks the webhook as disabled; false: it is disabled already.
func (h *Hook) disable(version int64, reason domain.DisabledReason, at time.Time) bool {
	health := h.Health()
	if health.DisabledVersion >= version {
		return false
	}
	health.DisabledVersion, health.DisabledReason, health.DisabledAt, health.UpdatedAt = version, reason, at, at
	return h.setHealth(health)
}
