package order

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"waybill.dev/services/dispatcher/internal/admission"
	"waybill.dev/services/dispatcher/internal/index"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/store/recorder"
)

// An account whose deliveries wait for their turn takes half of the memory for them. Its next event waits until
// one has ended. Other accounts have what they need, and a few deliveries may wait whatever the others have.
func TestWhatWaitsIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const half = 4 * minEntries
		metrics := newMetrics(prometheus.NewRegistry())
		m := &Manager{options: Options{Bus: named{}, Memory: admission.NewBudget(memoryShare * half * entrySize)}, metrics: metrics}
		begin := func(account string) *session { return newSession(m, account) }
		fill := func(s *session, n int) *queue {
			q := s.group(&index.Hook{ID: domain.WebhookID("wh_" + s.account)}).queue(1)
			for range n {
				q.busy = true // nothing goes out
				s.append(q, &entry{kept: true}, s.trimmedAt)
			}
			return q
		}
		enters := func(s *session) <-chan error {
			entered := make(chan error, 1)
			go func() { entered <- s.awaitMemory(t.Context()) }()
			synctest.Wait()
			return entered
		}
		greedy, other, third := begin("greedy"), begin("other"), begin("third")
		q := fill(greedy, half)
		blocked := enters(greedy)
		select {
		case <-blocked:
			t.Fatal("an account has more than half of the memory")
		default:
		}
		fill(other, half-1)
		if len(enters(other)) == 0 {
			t.Error("another account waits because of the first")
		}
		fill(other, 1)
		fill(third, minEntries-1)
		if len(enters(third)) == 0 {
			t.Error("an account with few deliveries waits for the others")
		}
		greedy.mu.Lock()
		for range minEntries { // what the third has is over the whole
			greedy.remove(q, q.entries[0], true, greedy.trimmedAt)
		}
		greedy.mu.Unlock()
		synctest.Wait()
		select {
		case err := <-blocked:
			if err != nil {
				t.Error(err)
			}
		default:
			t.Error("there is room again, and the account still waits")
		}
		// What ends after the session is over gives nothing back: the session has.
		other.giveBack()
		before := testutil.ToFloat64(metrics.waiting)
		other.mu.Lock()
		for _, q := range other.groups["wh_other"].queues {
			other.remove(q, q.entries[0], true, other.trimmedAt)
		}
		other.mu.Unlock()
		if after := testutil.ToFloat64(metrics.waiting); after != before {
			t.Errorf("%v wait, and %v after one of a session that is over has ended", before, after)
		}
	})
}

// What waits until it is known who handles it takes little of the memory, however many accounts it is of, and
// gives it back when that is known.
func TestWhatIsNotRoutedIsBounded(t *testing.T) {
	t.Parallel()
	const most, size, accounts = 1 << 20, 1 << 10, 8
	m := &Manager{
		options: Options{Bus: named{}, Room: admission.NewBudget(awaitShare * most)}, created: time.Unix(1, 0),
		wanted: make(map[string]bool), starts: make(map[string]recorder.OrderStart), awaiting: make(map[string][]waitingEvent),
	}
	again := 0
	fill := func() (n int) {
		for i := range 2 * most / size {
			if m.Await(fmt.Sprintf("a%d", i%accounts), size, func() { again++ }) {
				n++
			}
		}
		return n
	}
	waiting := fill()
	if waiting != most/size {
		t.Errorf("%d events of %d bytes wait, want %d", waiting, size, most/size)
	}
	for i := range accounts {
		account := fmt.Sprintf("a%d", i)
		m.starts[account] = recorder.OrderStart{Account: account, Created: m.created}
	}
	m.routeAwaiting()
	if again != waiting {
		t.Errorf("%d are routed, and %d waited", again, waiting)
	}
	if n := fill(); n != waiting {
		t.Errorf("%d wait after that, want %d", n, waiting)
	}
}

// After a reconnection an event is routed as soon as the bus has said which stream EVENTS is, without the database. On another
// stream its owner has to start the order first.
func TestAReconnectionForgetsNoStart(t *testing.T) {
	t.Parallel()
	stream := time.Unix(1, 0)
	m := &Manager{created: stream, starts: map[string]recorder.OrderStart{"a": {Account: "a", Created: stream, From: 5}}}
	m.ordering.Store(true)
	check := func(when string, of map[uint64]Route) {
		t.Helper()
		for sequence, want := range of {
			if got := m.Route("a", 0, sequence, false); got != want {
				t.Errorf("%s message %d is for %d, want %d", when, sequence, got, want)
			}
		}
	}
	check("before,", map[uint64]Route{4: Fanout, 5: Order})
	m.doubtStream()
	check("reconnected,", map[uint64]Route{4: Unknown, 5: Unknown})
	if got := m.Route("a", 7, 4, true); got != Order {
		t.Errorf("an event of REST with a place is for %d, want %d", got, Order)
	}
	m.created = stream
	check("with the same stream,", map[uint64]Route{4: Fanout, 5: Order})
	m.created = time.Unix(2, 0)
	check("with another stream,", map[uint64]Route{1: Unknown, 5: Unknown})
}

// named is a bus of which nothing is used but its server's name.
type named struct{ Bus }

func (named) Announce(string, []byte) {}

func (named) Server() string { return "n1" }
