package console

import (
	"context"
	"errors"
	"time"

	"waybill.dev/shared/domain"
)

// lookEvery is the maximum time from the end of a session to the end of its streams.
const lookEvery = 10 * time.Second

// whileSignedIn returns a context that ends with the session.
func (p *Page) whileSignedIn(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		ticker := time.NewTicker(lookEvery)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				if _, err := p.console.session(ctx, p.token()); errors.Is(err, domain.ErrNotFound) {
					cancel()
					return
				}
			}
		}
	}()
	return ctx, cancel
}
