package recorder_test

import (
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/seal"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/pipeline/pipelinetest"
	"waybill.dev/shared/store/storetest"
)

// Webhooks that begin to fail at once take hardly more round trips to Postgres than one of them: the transaction
// that tells of them is the only one of its kind, and has 20 s.
func TestManyAlertsAtOnce(t *testing.T) {
	t.Parallel()
	var turns atomic.Int64
	b := countedBench(t, &turns)
	b.Webhook(t, forAlerts)
	failing := func(n int) []domain.HealthChange {
		changes := make([]domain.HealthChange, n)
		for i := range changes {
			changes[i] = says(b.Webhook(t), b.Clock.Now(), domain.FailingFrom, b.Clock.Now(), false)
		}
		return changes
	}
	record := func(changes []domain.HealthChange) int64 {
		t.Helper()
		before := turns.Load()
		if _, err := b.Record(t.Context(), []domain.RecordBatch{{Health: changes}}); err != nil {
			t.Fatal(err)
		}
		return turns.Load() - before
	}
	one, many := failing(1), failing(1200)
	record(failing(1)) // statements are prepared
	few := record(one)
	if got := record(many); got > few+20 {
		t.Errorf("1200 webhooks took %d round trips, one of them %d", got, few)
	}
	if got := len(alertsOf(t, b, account)); got != 1202 {
		t.Errorf("%d alerts, want 1202", got)
	}
}

// countedBench is a bench on Postgres whose round trips are counted.
func countedBench(t *testing.T, turns *atomic.Int64) *bench {
	t.Helper()
	d := storetest.Postgres().Fresh(t)
	d.URL = counted(t, d.URL, turns)
	keys, err := seal.Parse(seal.Generate())
	if err != nil {
		t.Fatal(err)
	}
	clock := &storetest.Clock{}
	clock.Set(noon)
	return pipelinetest.New(&storetest.Bench{DB: d.Open(t, store.Options{Keys: keys, Now: clock.Now}), Clock: clock})
}

// counted returns the address of a way to a Postgres server on which round trips are counted: how often
// something was said to the server after the server had said something.
func counted(t *testing.T, address string, turns *atomic.Int64) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	to := u.Host
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	t.Cleanup(func() {
		_ = listener.Close()
		running.Wait()
	})
	running.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", to)
			if err != nil {
				_ = client.Close()
				continue
			}
			var answered atomic.Bool
			pass := func(from, into net.Conn, passed func()) {
				defer from.Close()
				defer into.Close()
				for buffer := make([]byte, 64<<10); ; {
					n, err := from.Read(buffer)
					if err != nil {
						return
					}
					passed()
					if _, err := into.Write(buffer[:n]); err != nil {
						return
					}
				}
			}
			running.Go(func() { pass(server, client, func() { answered.Store(true) }) })
			running.Go(func() {
				pass(client, server, func() {
					if answered.Swap(false) {
						turns.Add(1)
					}
				})
			})
		}
	})
	u.Host = listener.Addr().String()
	return u.String()
}
