package dispatcher_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"waybill.dev/services/dispatcher"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/pgtest"
	"waybill.dev/shared/store/pipeline"
)

// awayBench is a bench with a Postgres of its own, which can be stopped.
func awayBench(t *testing.T) (*bench, *pgtest.Cluster) {
	t.Helper()
	dir, err := os.MkdirTemp("", "away") //nolint:usetesting // Postgres runs as a user who can't enter the test's own
	if err != nil {
		t.Fatal(err)
	}
	own, err := pgtest.Start(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = own.Stop()
		_ = os.RemoveAll(dir)
	})
	url, err := own.CreateDatabase(t.Context(), "away")
	if err != nil {
		t.Fatal(err)
	}
	return newBench(t, url), own
}

// orderedAccounts are accounts with a webhook that has ordering each, all with the same receiver.
func (b *bench) orderedAccounts(n int, url string) (names []string) {
	b.t.Helper()
	var last domain.Webhook
	for i := range n {
		made := b.account(fmt.Sprintf("ordered-%d", i))
		last = b.webhook(url, ordered, func(w *domain.Webhook) { w.Account = made.Name })
		names = append(names, made.Name)
	}
	b.known(last)
	return names
}

// numberedMessage is an event of an account that has one shipment, as somebody publishes it on NATS.
func numberedMessage(account string, n, size int) *nats.Msg {
	return &nats.Msg{Subject: "events." + account + ".shipment.created", Data: fmt.Appendf(nil,
		`{"type":"shipment.created","data":{"note":%q,"shipmentId":%q,"n":%d}}`, strings.Repeat("x", size), account, n)}
}

// publishWhenBack publishes messages as soon as the client is connected again.
func publishWhenBack(t *testing.T, nc *nats.Conn, messages []*nats.Msg) {
	t.Helper()
	for _, m := range messages {
		if err := nc.PublishMsg(m); err != nil {
			t.Fatal(err)
		}
	}
	if err := nc.FlushTimeout(time.Minute); err != nil {
		t.Fatal(err)
	}
}

// While the database is away and the bus comes back, accounts with ordering wait, and the memory that their events
// take is not missing to others. They go on in order when the database is back. Nothing is lost, with the streams and
// without.
func TestOrderWaitsForTheDatabaseAndNobodyElse(t *testing.T) {
	t.Parallel()
	for name, wipe := range map[string]bool{"the bus has kept all": false, "the bus has lost all": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, own := awayBench(t)
			b.orderAway(t, own, wipe)
		})
	}
}

// In orderAway each of orderedAway accounts has eachAway events of sizeAway bytes, which are more together than the memory
// for events.
const (
	orderedAway = 10
	eachAway    = 30
	sizeAway    = 80 << 10

	// mostAway is the longest that events of an account without ordering may take meanwhile. A quiet machine takes 2 s,
	// a busy one with the race detector 11 s, and a dispatcher that lets them wait takes until the database is back.
	mostAway = 30 * time.Second
)

func (b *bench) orderAway(t *testing.T, own *pgtest.Cluster, wipe bool) {
	t.Helper()
	inOrderAt, free := newSink(t, nil), newSink(t, nil)
	b.dispatch(func(o *dispatcher.Options) { o.Memory = dispatcher.LeastMemory })
	other := b.account("other")
	b.webhook(free.URL, func(w *domain.Webhook) { w.Account = other.Name })
	names := b.orderedAccounts(orderedAway, inOrderAt.URL)
	nc := b.client()
	arrived := func(s *sink, n int) {
		t.Helper()
		b.eventually(func() error {
			if _, ids := s.seen(); len(ids) != n {
				return fmt.Errorf("%d events have arrived, want %d", len(ids), n)
			}
			return nil
		})
	}
	round := func(of []string, from, each, size int) (messages []*nats.Msg) {
		for n := range each {
			for _, name := range of {
				messages = append(messages, numberedMessage(name, from+n, size))
			}
		}
		return messages
	}
	publishWhenBack(t, nc, round(append(names, other.Name), 1, 1, 0))
	arrived(inOrderAt, orderedAway)
	arrived(free, 1)
	b.eventually(func() error { // else the numbers are lost with the bus
		for _, name := range names {
			list, _, err := b.store.ListDeliveries(t.Context(), pipeline.DeliveryFilter{Account: name, Limit: 1})
			if err != nil || len(list) != 1 || list[0].Status != domain.StatusDelivered {
				return fmt.Errorf("the first event of %s is not recorded: %w", name, err)
			}
		}
		return nil
	})

	if err := own.Halt(); err != nil {
		t.Fatal(err)
	}
	if wipe {
		b.server.Wipe()
		b.eventually(func() error { return b.bus.Ensure(t.Context()) })
	} else {
		b.server.Restart()
	}
	back := time.Now()
	b.eventually(func() error {
		if !nc.IsConnected() {
			return nats.ErrDisconnected
		}
		return nil
	})
	publishWhenBack(t, nc, round(names, 2, eachAway, sizeAway))
	published := time.Now()
	publishWhenBack(t, nc, round([]string{other.Name}, 2, 100, 0))
	arrived(free, 101)
	took := time.Since(published)
	t.Logf("the events of an account without ordering had arrived %s after they were published, and %s after the bus was back", took, time.Since(back))
	if took > mostAway {
		t.Error("they waited for those of accounts with ordering")
	}
	if err := own.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	arrived(inOrderAt, orderedAway*(1+eachAway))
	calls, _ := inOrderAt.seen()
	inOrder(t, calls, orderedAway, 1+eachAway)
}
