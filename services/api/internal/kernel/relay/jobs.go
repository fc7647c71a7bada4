package relay

import (
	"context"
	"errors"
	"fmt"

	"waybill.dev/shared/domain"
)

// advanceJobs sends the pages of the jobs, in turns of one page of one job of each account, until ctx ends. advanceJobs
// runs beside the rounds, so that a page that is slow to find holds up no request. The deliveries of a page go out with
// the next round.
func (r *Relay) advanceJobs(ctx context.Context) {
	r.every(ctx, interval, "pages of jobs can't be sent", func() error {
		for {
			if more, err := r.turn(ctx); !more || ctx.Err() != nil {
				return err
			}
		}
	})
}

// turn reports whether any of the jobs can send another page now.
func (r *Relay) turn(ctx context.Context) (more bool, err error) {
	ids, err := r.sendingJobs(ctx)
	if err != nil {
		return false, err
	}
	var stuck error
	for _, id := range ids {
		sent, another, err := r.advanceJob(ctx, id)
		if err != nil {
			stuck = errors.Join(stuck, fmt.Errorf("job %s: %w", id, err))
			if errors.Is(err, domain.ErrUnavailable) {
				break
			}
		}
		if sent > 0 {
			r.Poke()
		}
		more = more || another
	}
	return more, stuck
}

func (r *Relay) sendingJobs(ctx context.Context) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return r.store.SendingJobs(ctx)
}

func (r *Relay) advanceJob(ctx context.Context, id string) (sent int, more bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return r.store.AdvanceJob(ctx, id)
}
