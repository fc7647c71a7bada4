package pipeline_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/pgtest"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/pipeline"
	"waybill.dev/shared/store/recorder"
	"waybill.dev/shared/store/storetest"
)

// answerTime is how long a call may take to find out that the database is away: api
// answers 503 within 2 s.
const answerTime = 1500 * time.Millisecond

func submissions(id string) []pipeline.Submission {
	return []pipeline.Submission{{Account: "default", Events: []domain.Event{{
		ID: id, Type: domain.ShipmentCreated, Timestamp: "2025-06-10T12:00:00Z", Payload: []byte(`{}`),
	}}}}
}

// TestPostgresOutage: calls fail fast while the server is away, the leader learns of it,
// and the store works again by itself when it is back.
func TestPostgresOutage(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	cluster, err := pgtest.Start(ctx, "", "fsync=off")
	if err != nil {
		t.Fatalf("this test needs Postgres: %v", err)
	}
	t.Cleanup(func() {
		if err := cluster.Stop(); err != nil {
			t.Errorf("stop Postgres: %v", err)
		}
	})
	db := storetest.Open(t, store.Options{URL: cluster.URL("postgres")})
	if _, err := db.Migrate(ctx); err != nil {
		t.Fatal(err)
	}
	s := pipeline.New(db)
	if _, err := s.Accept(ctx, submissions("evt_before")); err != nil {
		t.Fatal(err)
	}
	lease, ok, err := db.Lead(ctx)
	if err != nil || !ok {
		t.Fatalf("lead: %v, %v", ok, err)
	}
	defer lease.Release()
	if err := cluster.Kill(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-lease.Lost():
	case <-time.After(10 * time.Second):
		t.Error("the leader was not told that its connection is gone")
	}
	for name, call := range map[string]func() error{
		"ping":   func() error { return db.Ping(ctx) },
		"accept": func() error { _, err := s.Accept(ctx, submissions("evt_during")); return err },
		"list":   func() error { _, _, err := s.ListEvents(ctx, pipeline.EventFilter{Account: "default"}); return err },
		"get":    func() error { _, _, err := s.GetWebhook(ctx, "default", "x"); return err },
		"delete": func() error { return s.DeleteWebhook(ctx, "default", "x") },
		"record": func() error {
			_, err := recorder.New(db).Record(ctx, []domain.RecordBatch{{Settled: []domain.EventKey{{ID: "x"}}}})
			return err
		},
		"pending": func() error { _, err := db.Pending(ctx); return err },
		"lead":    func() error { _, _, err := db.Lead(ctx); return err },
	} {
		start := time.Now()
		err := call()
		if !errors.Is(err, domain.ErrUnavailable) {
			t.Errorf("%s: %v, want unavailable", name, err)
		}
		if took := time.Since(start); took > answerTime {
			t.Errorf("%s took %v", name, took)
		}
	}
	if err := cluster.Resume(ctx); err != nil {
		t.Fatal(err)
	}
	if err := untilNil(ctx, func() error { _, err := s.Accept(ctx, submissions("evt_after")); return err }); err != nil {
		t.Errorf("after the outage: %v", err)
	}
	events, _, err := s.ListEvents(ctx, pipeline.EventFilter{Account: "default"})
	if err != nil || len(events) != 2 {
		t.Errorf("%d events, want those before and after (%v)", len(events), err)
	}
}

// untilNil calls f until it succeeds, for at most 10 s.
func untilNil(ctx context.Context, f func() error) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := f()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-tick.C:
		}
	}
}

// TestPostgresSilent: a host that takes connections and never answers.
func TestPostgresSilent(t *testing.T) {
	t.Parallel()
	var lc net.ListenConfig
	listener, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	s := pipeline.New(storetest.Open(t, store.Options{URL: "postgres://waybill:hush@" + listener.Addr().String() + "/waybill?sslmode=disable"}))
	start := time.Now()
	_, err = s.Accept(t.Context(), submissions("evt_1"))
	if !errors.Is(err, domain.ErrUnavailable) {
		t.Errorf("%v, want unavailable", err)
	}
	if took := time.Since(start); took > answerTime {
		t.Errorf("took %v", took)
	}
	if strings.Contains(err.Error(), "hush") {
		t.Errorf("the error tells the password: %v", err)
	}
}

// TestDeadline: a caller's deadline counts as the database being away, and a call that
// was given up does not spoil the connection.
func TestDeadline(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t, store.Options{URL: storetest.Postgres().Fresh(t).URL, MaxConns: 1})
	held, ok, err := db.Lead(t.Context()) // takes the one connection out of the pool's hands
	if err != nil || !ok {
		t.Fatalf("lead: %v, %v", ok, err)
	}
	defer held.Release()
	ctx, cancel := context.WithTimeout(t.Context(), time.Nanosecond)
	defer cancel()
	<-ctx.Done()
	if _, err := pipeline.New(db).Accept(ctx, submissions("evt_1")); !errors.Is(err, domain.ErrUnavailable) {
		t.Errorf("after the deadline: %v", err)
	}
	if err := db.Ping(t.Context()); err != nil {
		t.Errorf("the next call: %v", err)
	}
}
