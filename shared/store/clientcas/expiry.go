package clientcas

import (
	"context"
	"time"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
)

// ExpiringClientCAs returns an account's CA certificates that end within ExpirySoon from now on,
// and those that have ended: at most limit, the soonest first.
func (c *ClientCAs) ExpiringClientCAs(ctx context.Context, account string, now time.Time, limit int) ([]domain.Expiry, error) {
	if !store.Storable(account) {
		return nil, nil
	}
	var rows []caRow
	err := c.db.Reading(ctx).Select("id", "name", "expires_at").Where("account = ? AND expires_at <= ? AND removed_at IS NULL", account, expirySoon(now)).
		Order("expires_at, seq").Limit(limit).Find(&rows).Error
	if err != nil {
		return nil, store.Wrap("list CA certificates that end", err)
	}
	return store.All(rows, func(row caRow) domain.Expiry {
		return domain.Expiry{Kind: domain.ExpiryClientCA, At: row.ExpiresAt.Time(), Key: row.ID, Name: row.Name}
	}), nil
}

// CountExpiringClientCAs counts such certificates over all accounts, at most
// domain.MaxExpiring: the soonest.
func (c *ClientCAs) CountExpiringClientCAs(ctx context.Context, now time.Time) (domain.ExpiryCount, error) {
	var row struct {
		N       int
		Soonest store.Instant
	}
	err := c.db.Reading(ctx).Raw("SELECT count(*) AS n, min(expires_at) AS soonest FROM (SELECT expires_at FROM gateway_client_cas WHERE expires_at <= ? AND removed_at IS NULL ORDER BY expires_at LIMIT ?) AS ends", expirySoon(now), domain.MaxExpiring).Scan(&row).Error
	return domain.ExpiryCount{Kind: domain.ExpiryClientCA, N: row.N, Soonest: row.Soonest.Time()}, store.Wrap("count CA certificates that end", err)
}

func expirySoon(now time.Time) store.Instant { return store.InstantOf(now.Add(domain.ExpirySoon)) }
