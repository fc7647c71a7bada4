package access

import (
	"context"
	"time"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
)

const keysThatEnd = "api_keys k JOIN key_consumers c ON c.id = k.consumer_id JOIN key_buckets b ON b.id = c.bucket_id"

// ExpiringKeys returns an account's keys that end within ExpirySoon from now on: at most limit,
// the soonest first.
func (a *Access) ExpiringKeys(ctx context.Context, account string, now time.Time, limit int) ([]domain.Expiry, error) {
	var rows []struct {
		ID, Bucket, Consumer string
		At                   store.Instant
	}
	err := a.db.Reading(ctx).Raw("SELECT k.id AS id, b.name AS bucket, c.name AS consumer, k.expires_at AS at FROM "+keysThatEnd+
		" WHERE b.account = ? AND k.expires_at > ? AND k.expires_at <= ? ORDER BY k.expires_at LIMIT ?",
		account, store.InstantOf(now), store.InstantOf(now.Add(domain.ExpirySoon)), limit).Scan(&rows).Error
	if err != nil {
		return nil, store.Wrap("list keys that end", err)
	}
	found := make([]domain.Expiry, len(rows))
	for i, row := range rows {
		found[i] = domain.Expiry{Kind: domain.ExpiryAPIKey, At: row.At.Time(), Key: row.ID, Bucket: row.Bucket, Consumer: row.Consumer}
	}
	return found, nil
}

// CountExpiringKeys counts the same over all accounts, at most domain.MaxExpiring: the soonest.
func (a *Access) CountExpiringKeys(ctx context.Context, now time.Time) (domain.ExpiryCount, error) {
	var row struct {
		N       int
		Soonest store.Instant
	}
	err := a.db.Reading(ctx).Raw("SELECT count(*) AS n, min(expires_at) AS soonest FROM (SELECT expires_at FROM api_keys WHERE expires_at > ? AND expires_at <= ? ORDER BY expires_at LIMIT ?) AS ends",
		store.InstantOf(now), store.InstantOf(now.Add(domain.ExpirySoon)), domain.MaxExpiring).Scan(&row).Error
	return domain.ExpiryCount{Kind: domain.ExpiryAPIKey, N: row.N, Soonest: row.Soonest.Time()}, store.Wrap("count keys that end", err)
}
