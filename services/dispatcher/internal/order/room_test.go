package order

import (
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"waybill.dev/services/dispatcher/internal/index"
	"waybill.dev/services/dispatcher/internal/inflight"
	"waybill.dev/shared/domain"
)

// An account whose deliveries wait for their turn takes half of the memory for them. Its next event waits until
// one has ended. Other accounts have what they need, and a few deliveries may wait whatever the others have.
func TestWhatWaitsIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const half = 4 * entriesLeast
		metrics := newMetrics(prometheus.NewRegistry())
		m := &Manager{options: Options{Bus: named{}, Turns: inflight.NewBudget(turnsShare * half * entrySize)}, metrics: metrics}
		begin := func(account string) *session { return newSession(m, account) }
		fill := func(s *session, n int) *queue {
			q := s.lane(&index.Hook{ID: domain.WebhookID("wh_" + s.account)}).queue(1)
			for range n {
				q.busy = true // nothing goes out
				s.append(q, &entry{kept: true}, s.trimming.at)
			}
			return q
		}
		enters := func(s *session) <-chan error {
			entered := make(chan error, 1)
			go func() { entered <- s.room(t.Context()) }()
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
		fill(third, entriesLeast-1)
		if len(enters(third)) == 0 {
			t.Error("an account with few deliveries waits for the others")
		}
		greedy.mu.Lock()
		for range entriesLeast { // what the third has is over the whole
			greedy.remove(q, q.entries[0], true, greedy.trimming.at)
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
		for _, q := range other.lanes["wh_other"].queues {
			other.remove(q, q.entries[0], true, other.trimming.at)
		}
		other.mu.Unlock()
		if after := testutil.ToFloat64(metrics.waiting); after != before {
			t.Errorf("%v wait, and %v after one of a session that is over has ended", before, after)
		}
	})
}

// named is a bus of which nothing is used but its server's name.
type named struct{ Bus }

func (named) Server() string { return "n1" }
