package pipeline

import (
	"context"
	"time"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
)

// sends is the condition that deliveries are sent to the webhook w with the health h.
const sends = "w.active AND NOT w.deleted AND w.delivery = 'push' AND (h.disabled_version IS NULL OR h.disabled_version = 0 OR h.disabled_version < w.activated_version)"

const webhooksWithHealth = "webhooks w LEFT JOIN webhook_health h ON h.webhook_id = w.id"

// expiryTable says where the things of one kind are that expire.
type expiryTable struct {
	kind                     domain.ExpiryKind
	tables                   string // the tables
	at, account, where, what string // what: id and URL of the webhook, id of the key
}

// expiries returns the kinds in these tables. Each has an index by expiry for all accounts. Secrets and credentials of
// webhooks have another index by account. Certificates of receivers have none: IS TRUE makes the database use the index
// by time, because few certificates end soon and an account may have many webhooks.
func expiries() []expiryTable {
	const webhook, receivers = "w.id AS webhook, w.url AS url, '' AS key", "webhook_health h JOIN webhooks w ON w.id = h.webhook_id"
	return []expiryTable{
		{
			domain.ExpiryReceiverCertificate, receivers, "h.certificate_expires_at", "(w.account = ?) IS TRUE",
			"h.certificate_version >= w.url_version AND " + sends, webhook,
		},
		{domain.ExpiryClientCertificate, webhooksWithHealth, "w.auth_expires_at", "w.account = ?", sends, webhook},
		{domain.ExpiryWebhookSecret, webhooksWithHealth, "w.previous_secret_expires_at", "w.account = ?", "w.previous_secret IS NOT NULL AND " + sends, webhook},
		{domain.ExpirySigningKey, "signing_keys k", "k.expires_at", "k.account = ?", "1 = 1", "'' AS webhook, '' AS url, k.id AS key"},
	}
}

// Expiring returns the secrets, credentials, signing keys and certificates of an account that end
// within ExpirySoon from now on, and the certificates that have ended: of each kind at most limit,
// the soonest first.
func (p *Pipeline) Expiring(ctx context.Context, account string, now time.Time, limit int) ([]domain.Expiry, error) {
	var found []domain.Expiry
	tx := p.db.Reading(ctx)
	for _, e := range expiries() {
		var rows []struct {
			Webhook, URL, Key string
			At                store.Instant
		}
		err := tx.Raw("SELECT "+e.what+", "+e.at+" AS at FROM "+e.tables+
			" WHERE "+e.account+" AND "+e.at+" > ? AND "+e.at+" <= ? AND "+e.where+" ORDER BY "+e.at+" LIMIT ?",
			account, store.InstantOf(e.kind.Since(now)), store.InstantOf(now.Add(domain.ExpirySoon)), limit).Scan(&rows).Error
		if err != nil {
			return nil, store.Wrap("list what ends", err)
		}
		for _, row := range rows {
			found = append(found, domain.Expiry{Kind: e.kind, At: row.At.Time(), Webhook: domain.WebhookID(row.Webhook), URL: row.URL, Key: row.Key})
		}
	}
	return found, nil
}

// CountExpiring counts them over all accounts, at most domain.MaxExpiring of each kind: the soonest.
func (p *Pipeline) CountExpiring(ctx context.Context, now time.Time) ([]domain.ExpiryCount, error) {
	var counts []domain.ExpiryCount
	tx := p.db.Reading(ctx)
	for _, e := range expiries() {
		var row struct {
			N       int
			Soonest store.Instant
		}
		err := tx.Raw("SELECT count(*) AS n, min(at) AS soonest FROM (SELECT "+e.at+" AS at FROM "+e.tables+
			" WHERE "+e.at+" > ? AND "+e.at+" <= ? AND "+e.where+" ORDER BY "+e.at+" LIMIT ?) AS ends",
			store.InstantOf(e.kind.Since(now)), store.InstantOf(now.Add(domain.ExpirySoon)), domain.MaxExpiring).Scan(&row).Error
		if err != nil {
			return nil, store.Wrap("count what ends", err)
		}
		counts = append(counts, domain.ExpiryCount{Kind: e.kind, N: row.N, Soonest: row.Soonest.Time()})
	}
	return counts, nil
}
