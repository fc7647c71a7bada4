package relay

import (
	"context"
	"time"

	"waybill.dev/shared/bus"
	"waybill.dev/shared/store/pipeline"
)

// Upkeep is what becomes due with time.
type Upkeep interface {
	Maintain(ctx context.Context, now time.Time, retention time.Duration) (pipeline.MaintainResult, error)
	// ResumeQuotas activates the webhooks that were inactive for a quota whose period has ended, and
	// returns how many these are.
	ResumeQuotas(ctx context.Context) (int, error)
}

// resumeQuotas activates, once a second, webhooks that were inactive for a quota whose period has
// ended. Dispatchers find them by their version.
func (r *Relay) resumeQuotas(ctx context.Context) {
	trouble := trouble{log: r.log, what: "webhooks whose quota begins anew can't be activated"}
	ticks := time.NewTicker(interval)
	defer ticks.Stop()
	for {
		resumed, err := r.resume(ctx)
		trouble.report(ctx, err)
		if resumed > 0 {
			r.bus.Announce(bus.SubjectConfig, nil)
			r.log.Info("webhooks are active again, as their quota begins anew", "webhooks", resumed)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
	}
}

func (r *Relay) resume(ctx context.Context) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return r.store.ResumeQuotas(ctx)
}
