package web

import (
	"context"
	"fmt"
	"sync"

	"waybill.dev/shared/domain"
)

// flights lets requests wait for the first one with the same idempotency key. Then they go
// on together: the database gives them all the same answer, and it does so, too, when the
// first one failed or another process serves it. Waiting here keeps them from holding
// connections meanwhile.
type flights struct {
	mu      sync.Mutex
	running map[flight]chan struct{} // closed when it lands
}

type flight struct{ account, path, key string }

func newFlights() *flights { return &flights{running: make(map[flight]chan struct{})} }

// take returns at once when no other request with the same key runs, else when that has
// ended. land must be called at the end.
func (f *flights) take(ctx context.Context, id flight) (land func(), err error) {
	f.mu.Lock()
	other, busy := f.running[id]
	if !busy {
		landed := make(chan struct{})
		f.running[id] = landed
		f.mu.Unlock()
		return func() {
			f.mu.Lock()
			delete(f.running, id)
			f.mu.Unlock()
			close(landed)
		}, nil
	}
	f.mu.Unlock()
	select {
	case <-other:
		return func() {}, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for the first request with this key: %w: %w", domain.ErrUnavailable, ctx.Err())
	}
}
