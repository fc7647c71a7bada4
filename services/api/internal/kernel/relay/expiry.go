package relay

import (
	"context"
	"time"

	"waybill.dev/shared/domain"
)

// Expiries counts the certificates, keys and secrets that end soon, over all accounts.
type Expiries interface {
	CountExpiring(ctx context.Context, now time.Time) ([]domain.ExpiryCount, error)
	CountExpiringKeys(ctx context.Context, now time.Time) (domain.ExpiryCount, error)
	CountExpiringCertificates(ctx context.Context, now time.Time) (domain.ExpiryCount, error)
	CountExpiringClientCAs(ctx context.Context, now time.Time) (domain.ExpiryCount, error)
	CountExpiringDomains(ctx context.Context) (domain.ExpiryCount, error)
}

// expiryLook is the time between two such counts.
const expiryLook = 5 * time.Second

// watchExpiries updates the metrics of things that expire soon, while this process leads.
func (r *Relay) watchExpiries(ctx context.Context) {
	r.every(ctx, expiryLook, "what ends soon can't be counted; its metrics are old", func() error { return r.countExpiries(ctx, time.Now()) })
}

func (r *Relay) countExpiries(ctx context.Context, now time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	counts, err := r.store.CountExpiring(ctx, now)
	if err != nil {
		return err
	}
	keys, err := r.store.CountExpiringKeys(ctx, now)
	if err != nil {
		return err
	}
	certificates, err := r.store.CountExpiringCertificates(ctx, now)
	if err != nil {
		return err
	}
	authorities, err := r.store.CountExpiringClientCAs(ctx, now)
	if err != nil {
		return err
	}
	hostnames, err := r.store.CountExpiringDomains(ctx)
	if err != nil {
		return err
	}
	for _, c := range append(counts, keys, certificates, authorities, hostnames) {
		kind := string(c.Kind)
		r.metrics.expiring.WithLabelValues(kind).Set(float64(c.N))
		if c.Soonest.IsZero() {
			r.metrics.soonest.DeleteLabelValues(kind)
		} else {
			r.metrics.soonest.WithLabelValues(kind).Set(c.Soonest.Sub(now).Seconds())
		}
	}
	return nil
}
