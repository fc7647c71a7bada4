package web

import (
	"context"
	"fmt"
	"sync"

	"waybill.dev/shared/domain"
)

// turns lets requests wait for the first one with the same idempotency key. Then they go
// on together: the database gives them all the same answer, and it does so, too, when the
// first one failed or another process serves it. Waiting here keeps them from holding
// connections meanwhile.
type turns struct {
	mu      sync.Mutex
	running map[turn]chan struct{} // closed when it is over
}

type turn struct{ account, path, key string }

func newTurns() *turns { return &turns{running: make(map[turn]chan struct{})} }

// Turn returns at once when no other request to the route with the same idempotency key runs,
// else when that one has ended. done must be called at the end.
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
