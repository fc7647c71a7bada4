package order

import (
	"context"
	"fmt"
	"sync"
	"time"

	"waybill.dev/shared/bus"
)

// sharedQuery joins callers that ask at the same time. After all of them have asked, it puts one question about everything that
// they ask for. So a dispatcher that takes over 1,000 accounts asks the bus or the database twice, and not 1,000 times; and
// 1,000 accounts with an event each ask for their numbers in a few queries.
type sharedQuery[Q, T any] struct {
	m        *Manager
	question func(ctx context.Context, about []Q) (T, error)

	mu     sync.Mutex
	asking bool
	next   *sharedAnswer[Q, T] // the answer to the question that is put next; nil: no caller waits for it
}

type sharedAnswer[Q, T any] struct {
	about []Q
	done  chan struct{}
	value T
	err   error
}

// ask returns the answer to a question that is put after this call. The answer also covers what other callers ask about, and must
// not be changed. Only goroutines of Manager.working may call ask. The error is that of the question, or ctx's if ctx ends first.
func (t *sharedQuery[Q, T]) ask(ctx context.Context, about ...Q) (T, error) {
	t.mu.Lock()
	if t.next == nil {
		t.next = &sharedAnswer[Q, T]{done: make(chan struct{})}
	}
	a := t.next
	a.about = append(a.about, about...)
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
func (t *sharedQuery[Q, T]) put() {
	for {
		t.mu.Lock()
		a := t.next
		t.next, t.asking = nil, a != nil
		t.mu.Unlock()
		if a == nil {
			return
		}
		a.value, a.err = t.question(t.m.running, a.about)
		close(a.done)
	}
}

// recordsWritten waits until the records that are on the bus are in the database.
func (m *Manager) recordsWritten(ctx context.Context, _ []struct{}) (struct{}, error) {
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
