package web

import (
	"context"
	"fmt"
	"sync"

	"waybill.dev/shared/domain"
)

// turns makes requests wait for the first one with the same idempotency key. After that they all
// continue at once: the database gives them the same answer, even when the first one failed or
// another process serves it. While they wait here, they hold no connections.
type turns struct {
	mu      sync.Mutex
	running map[turn]chan struct{} // closed at the end of the turn
}

type turn struct{ account, path, key string }

func newTurns() *turns { return &turns{running: make(map[turn]chan struct{})} }

// Turn returns at once when no other request to the route with the same idempotency key runs,
// otherwise when that request has ended. The caller must call done at the end.
func (c *Call) Turn(key string) (done func(), err error) {
	return c.kernel.turns.take(c.Context(), turn{c.Principal.Account, c.route.Path, key})
}

func (t *turns) take(ctx context.Context, of turn) (done func(), err error) {
	t.mu.Lock()
	other, busy := t.running[of]
	if !busy {
		over := make(chan struct{})
		t.running[of] = over
		t.mu.Unlock()
		return func() {
			t.mu.Lock()
			delete(t.running, of)
			t.mu.Unlock()
			close(over)
		}, nil
	}
	t.mu.Unlock()
	select {
	case <-other:
		return func() {}, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for the first request with this key: %w: %w", domain.ErrUnavailable, ctx.Err())
	}
}
