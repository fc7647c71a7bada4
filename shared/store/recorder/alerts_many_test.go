package recorder_test

import (
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/seal"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/pipeline/pipelinetest"
	"waybill.dev/shared/store/storetest"
)

// Webhooks that begin to fail at once take no more round trips to Postgres than one of them, so the transaction that tells
// of them, which has 20 s, ends in time even if each takes a millisecond more. The record stage writes 1200 of them at a
// time at most.
func TestManyAlertsAtOnce(t *testing.T) {
	t.Parallel()
	var turns atomic.Int64
	b := countedBench(t, &turns)
	b.Webhook(t, forAlerts)
	const many = 10_000
	hooks := copies(t, b, b.Webhook(t), many)
	record := func(hooks ...domain.Webhook) int64 {
		t.Helper()
		changes := make([]domain.HealthChange, len(hooks))
		for i, w := range hooks {
			changes[i] = says(w, b.Clock.Now(), domain.FailingFrom, b.Clock.Now(), false)
		}
		before, began := turns.Load(), time.Now()
		result, err := b.Record(t.Context(), []domain.RecordBatch{{Health: changes}})
		if err != nil || len(result.Alerts) != len(hooks) {
			t.Fatalf("%d alerts of %d webhooks: %v", len(result.Alerts), len(hooks), err)
		}
		took := turns.Load() - before
		t.Logf("%d webhooks: %d round trips, %v", len(hooks), took, time.Since(began))
		return took
	}
	record(b.Webhook(t)) // statements are prepared
	few := record(b.Webhook(t))
	if got := record(hooks...); got > few+10 { // the server answers in parts before it was told all
		t.Errorf("%d webhooks took %d round trips, one of them %d", many, got, few)
	}
}

// copies adds copies of a webhook to a Postgres database.
func copies(t *testing.T, b *bench, w domain.Webhook, n int) []domain.Webhook {
	t.Helper()
	list := make([]domain.Webhook, n)
	ids := make([]string, n)
	for i := range list {
		list[i], ids[i] = w, uuid.NewString()
		list[i].ID = domain.WebhookID(ids[i])
	}
	_, err := b.DB.Postgres().Exec(t.Context(), `INSERT INTO webhooks SELECT (jsonb_populate_record(w, jsonb_build_object('id', copy))).*
		FROM webhooks w, unnest($2::text[]) AS copy WHERE w.id = $1`, string(w.ID), ids)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// countedBench is a bench on Postgres whose round trips are counted, and take a millisecond more each.
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

// counted returns the address of a way to a Postgres server on which round trips are counted, and take a millisecond
// more: one is something that is said to the server after the server has said something.
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
						<-time.After(time.Millisecond)
					}
				})
			})
		}
	})
	u.Host = listener.Addr().String()
	return u.String()
}
