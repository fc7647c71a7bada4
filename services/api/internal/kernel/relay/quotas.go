package relay

import (
	"context"
	"time"

	"waybill.dev/shared/bus"
	"waybill.dev/shared/store/pipeline"
)

// Upkeep does the work that becomes due with time.
type Upkeep interface {
	Maintain(ctx context.Context, now time.Time, retention time.Duration) (pipeline.MaintainResult, error)
	// ResumeQuotas activates the webhooks that were inactive for a quota whose period has ended since the
	// given time, and returns their number.
	ResumeQuotas(ctx context.Context, since time.Time) (int, error)
}

// Records of a period that has already ended arrive late, by the time that a record takes, and by the
// difference between the clocks of this process and of the dispatcher. Each second, periods that ended within
// quotaSoon are checked; every quotaRounds seconds those within quotaLate; at the start all of them.
const (
	quotaSoon   = time.Minute
	quotaLate   = time.Hour
	quotaRounds = 60
)

// resumeQuotas activates, once a second, webhooks that were inactive for a quota whose period has ended.
// Dispatchers see the change by the configuration version.
func (r *Relay) resumeQuotas(ctx context.Context) {
	since, round := time.Time{}, 0
	r.every(ctx, interval, "webhooks whose quota begins anew can't be activated", func() error {
		resumed, err := r.resume(ctx, since)
		if err != nil {
			return err
		}
		if resumed > 0 {
			r.bus.Announce(bus.SubjectConfig, nil)
			r.log.Info("webhooks are active again, as their quota begins anew", "webhooks", resumed)
		}
		round++
		late := quotaSoon
		if round%quotaRounds == 0 {
			late = quotaLate
		}
		since = time.Now().Add(interval - late)
		return nil
	})
}

func (r *Relay) resume(ctx context.Context, since time.Time) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return r.store.ResumeQuotas(ctx, since)
}
