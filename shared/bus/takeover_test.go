package bus_test

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"

	"waybill.dev/shared/bus"
	"waybill.dev/shared/bus/bustest"
	"waybill.dev/shared/domain"
)

// logged notes which batches came, by the ids of the events that they settle, and when.
type logged struct {
	mu   sync.Mutex
	seen map[string]time.Time
}

func (l *logged) note(t *testing.T, m *bus.Message) {
	t.Helper()
	batch, err := bus.ParseRecords(m.Body())
	if err != nil || len(batch.Settled) != 1 {
		t.Errorf("message %d: %+v, %v", m.Sequence, batch, err)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.seen[batch.Settled[0].ID]; !ok {
		l.seen[batch.Settled[0].ID] = time.Now()
	}
}

func (l *logged) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.seen)
}

// consumeRecords consumes until the test ends, or the process that does is killed.
func consumeRecords(t *testing.T, b *bus.Bus, handle func(*bus.InHand, *bus.Message)) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	inHand := bus.NewRecordsInHand(nil)
	var running sync.WaitGroup
	running.Go(func() { _ = inHand.Run(ctx) })
	running.Go(func() {
		if err := b.ConsumeRecords(ctx, inHand, func(m *bus.Message) { handle(inHand, m) }); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { stop(); running.Wait() })
}

func settles(id string) *domain.RecordBatch {
	return &domain.RecordBatch{Settled: []domain.EventKey{{Account: domain.DefaultAccount, ID: id, ReceivedAt: time.Now()}}}
}

func unless(done bool, what string) error {
	if done {
		return nil
	}
	return errors.New("not yet: " + what)
}

// storeRecords stores n batches and waits for the server's word on each.
func storeRecords(t *testing.T, b *bus.Bus, from, n int) {
	t.Helper()
	for i := range n {
		stored := make(chan error, 1)
		b.PublishRecords(settles(strconv.Itoa(from+i)), func(err error) { stored <- err })
		if err := <-stored; err != nil {
			t.Fatal(err)
		}
	}
}

// The log stands still for 2 s at most when the process that writes it is killed: what it
// had in hand comes to another one, and what is new.
func TestRecordsOfAKilledProcessAreTakenOver(t *testing.T) {
	t.Parallel()
	server := bustest.Start(t)
	publisher, first, second := connect(t, server), connect(t, server), connect(t, server)
	var held, log logged
	held.seen, log.seen = map[string]time.Time{}, map[string]time.Time{}
	consumeRecords(t, first, func(inHand *bus.InHand, m *bus.Message) {
		held.note(t, m)
		if m.Sequence%3 == 0 { // the others are in hand when it is killed
			m.Ack()
			inHand.Done(m)
		}
	})
	storeRecords(t, publisher, 0, 100)
	eventually(t, func() error { return unless(held.count() == 100, "a process takes the records") })
	consumeRecords(t, second, func(inHand *bus.InHand, m *bus.Message) {
		log.note(t, m)
		m.Ack()
		inHand.Done(m)
	})
	storeRecords(t, publisher, 100, 100)
	eventually(t, func() error { return unless(held.count() == 200, "the same goes on") })
	if log.count() > 0 {
		t.Fatal("two processes are served at once")
	}
	killed := time.Now()
	first.Close() // it says nothing more
	storeRecords(t, publisher, 200, 100)
	const want = 200 - 66 + 100
	eventually(t, func() error { return unless(log.count() >= want, "another takes all that is not acknowledged") })
	log.mu.Lock()
	defer log.mu.Unlock()
	last := killed
	for _, at := range log.seen {
		if at.After(last) {
			last = at
		}
	}
	if took := last.Sub(killed); took > 2*time.Second {
		t.Errorf("the records stood still for %s", took)
	}
}

// A process that is slow, because its database is, is not taken for dead.
func TestRecordsStayWithAProcessThatIsSlow(t *testing.T) {
	t.Parallel()
	server := bustest.Start(t)
	publisher, first, second := connect(t, server), connect(t, server), connect(t, server)
	var log, other logged
	log.seen, other.seen = map[string]time.Time{}, map[string]time.Time{}
	blocked, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	consumeRecords(t, first, func(inHand *bus.InHand, m *bus.Message) {
		once.Do(func() { close(blocked) })
		<-release
		log.note(t, m)
		m.Ack()
		inHand.Done(m)
	})
	storeRecords(t, publisher, 0, 1200)
	<-blocked
	consumeRecords(t, second, func(inHand *bus.InHand, m *bus.Message) {
		other.note(t, m)
		m.Ack()
		inHand.Done(m)
	})
	time.AfterFunc(6*time.Second, func() { close(release) })
	eventually(t, func() error { return unless(log.count()+other.count() == 1200, "the slow one goes on") })
	if n := other.count(); n > 0 {
		t.Errorf("another process got %d batches while the first was alive", n)
	}
}
