package order

import (
	"context"
	"fmt"
	"sync"
	"time"

	"waybill.dev/shared/bus"
)

// together joins callers that ask the same question at the same time. The question is put once for all of them, after
// each of them has asked. So a dispatcher that takes over 1,000 accounts asks the bus or the database twice, and not
// 1,000 times.
type together[T any] struct {
	m        *Manager
	question func(ctx context.Context) (T, error)

	mu     sync.Mutex
	asking bool
	next   *answer[T] // to the question that is put next; nil: nobody waits for it
}

type answer[T any] struct {
	done  chan struct{}
	value T
	err   error
}

// ask returns an answer to the question, put from now on. Only goroutines of Manager.working may call ask. The error is
// that of the question, or of ctx if ctx ends first.
func (t *together[T]) ask(ctx context.Context) (T, error) {
	t.mu.Lock()
	if t.next == nil {
		t.next = &answer[T]{done: make(chan struct{})}
	}
	a := t.next
	if !t.asking {
		t.asking = true
		t.m.working.Go(t.put)
	}
	t.mu.Unlock()
	select {
	case <-a.done:
		return a.value, a.err
	case <-ctx.Done():
		var none T
		return none, ctx.Err() //nolint:wrapcheck // asked to stop
	}
}

// put puts the question again as long as a caller waits for an answer.
func (t *together[T]) put() {
	for {
		t.mu.Lock()
		a := t.next
		t.next, t.asking = nil, a != nil
		t.mu.Unlock()
		if a == nil {
			return
		}
		a.value, a.err = t.question(t.m.running)
		close(a.done)
	}
}

// recordsWritten waits until the records that are on the bus are in the database.
func (m *Manager) recordsWritten(ctx context.Context) (struct{}, error) {
	records := m.options.Bus.Stream(bus.StreamRecords)
	state, err := records.State(ctx)
	if err != nil {
		return struct{}{}, err
	}
	for {
		consumer, err := records.ConsumerState(ctx, bus.ConsumerRecord)
		if err != nil {
			return struct{}{}, err
		}
		if consumer.Acknowledged >= state.LastSeq || consumer.Pending == 0 && consumer.Unacknowledged == 0 {
			return struct{}{}, nil
		}
		select {
		case <-ctx.Done():
			return struct{}{}, fmt.Errorf("wait for records: %w", ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
}
