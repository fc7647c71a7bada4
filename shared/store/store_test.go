package store_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/storetest"
)

func TestMain(m *testing.M) { os.Exit(storetest.Main(m)) }

// TestSuite is what both databases do for every family.
func TestSuite(t *testing.T) {
	storetest.Run(t, func(b *storetest.Bench) *storetest.Bench { return b }, map[string]storetest.Tests[*storetest.Bench]{
		"store": {
			"migrates once":          testMigrate,
			"leads, and leads again": testLead,
			"tells of itself":        testInspect,
			"numbers go on above":    testRestored,
		},
	})
}

func testMigrate(t *testing.T, b *storetest.Bench) {
	if pending, err := b.DB.Pending(t.Context()); err != nil || pending {
		t.Errorf("pending %v, %v", pending, err)
	}
	applied, err := b.DB.Migrate(t.Context())
	if err != nil || len(applied) != 0 {
		t.Errorf("applied again: %+v, %v", applied, err)
	}
	status, err := b.DB.MigrationStatus(t.Context())
	if err != nil || len(status) == 0 {
		t.Fatalf("status %+v, %v", status, err)
	}
	for i, m := range status {
		if !m.Applied || m.AppliedAt.IsZero() || i > 0 && m.Version <= status[i-1].Version || m.Name == "" {
			t.Errorf("migration %+v", m)
		}
	}
}

func testLead(t *testing.T, b *storetest.Bench) {
	lease, ok, err := b.DB.Lead(t.Context())
	if err != nil || !ok {
		t.Fatalf("nobody leads, and yet: %v, %v", ok, err)
	}
	select {
	case <-lease.Lost():
		t.Error("lost at once")
	default:
	}
	lease.Release()
	lease.Release()
	again, ok, err := b.DB.Lead(t.Context())
	if err != nil || !ok {
		t.Fatalf("after the release: %v, %v", ok, err)
	}
	again.Release()
}

// TestLeadership: of two stores on one database one leads, and the other takes over.
func TestLeadership(t *testing.T) {
	t.Parallel()
	address := storetest.Empty(t).URL
	one, two := storetest.Open(t, store.Options{URL: address}), storetest.Open(t, store.Options{URL: address})
	first, ok, err := one.Lead(t.Context())
	if err != nil || !ok {
		t.Fatalf("first: %v, %v", ok, err)
	}
	if _, ok, err := two.Lead(t.Context()); err != nil || ok {
		t.Errorf("a second leader: %v, %v", ok, err)
	}
	first.Release()
	second, ok, err := two.Lead(t.Context())
	if err != nil || !ok {
		t.Fatalf("after the release: %v, %v", ok, err)
	}
	second.Release()
}

// TestMigrateTogether: several processes may migrate a fresh database at once.
func TestMigrateTogether(t *testing.T) {
	t.Parallel()
	address := storetest.Empty(t).URL
	results := make(chan error, 3)
	applied := make(chan int, 3)
	stores := make([]*store.Store, 3)
	for i := range stores {
		stores[i] = storetest.Open(t, store.Options{URL: address})
		if pending, err := stores[i].Pending(t.Context()); err != nil || !pending {
			t.Errorf("a fresh database: pending %v, %v", pending, err)
		}
	}
	for _, s := range stores {
		go func() {
			n, err := migrate(t.Context(), s)
			applied <- n
			results <- err
		}()
	}
	total := 0
	for range 3 {
		total += <-applied
		if err := <-results; err != nil {
			t.Errorf("migrate: %v", err)
		}
	}
	s := storetest.Open(t, store.Options{URL: address})
	status, err := s.MigrationStatus(t.Context())
	if err != nil || total != len(status) {
		t.Errorf("%d applied of %d, %v", total, len(status), err)
	}
}

// migrate is what a process does at its start: it tries again when the others take long.
func migrate(ctx context.Context, s *store.Store) (applied int, err error) {
	for {
		list, err := s.Migrate(ctx)
		applied += len(list)
		if !errors.Is(err, domain.ErrUnavailable) {
			return applied, err
		}
	}
}

// TestOpen names what is wrong with a URL without repeating it.
func TestOpen(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"", "mysql://root:hush@x", "sqlite:", "sqlite::memory:", "postgres://x:hush@h:notaport/db", "sqlite:/nonexistent/hush-less/x.db"} {
		s, err := store.Open(t.Context(), store.Options{URL: address})
		if err == nil {
			t.Errorf("%q opened", address)
			_ = s.Close()
			continue
		}
		if strings.Contains(err.Error(), ":hush@") {
			t.Errorf("the error tells the password: %v", err)
		}
	}
}

// TestSlowConnect connects to a server that takes longer to answer than a service would wait.
func TestSlowConnect(t *testing.T) {
	t.Parallel()
	there, err := url.Parse(storetest.Postgres().Fresh(t).URL)
	if err != nil {
		t.Fatal(err)
	}
	query := there.Query()
	query.Del("connect_timeout")
	there.Host, there.RawQuery = slowly(t, there.Host, 1500*time.Millisecond), query.Encode()
	for wait, want := range map[time.Duration]error{0: domain.ErrUnavailable, 30 * time.Second: nil} {
		s, err := store.Open(t.Context(), store.Options{URL: there.String(), ConnectTimeout: wait})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Pending(t.Context()); !errors.Is(err, want) {
			t.Errorf("with a limit of %s: %v, want %v", wait, err, want)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// slowly listens and passes connections on to a server, each after a time. It returns where it
// listens.
func slowly(t *testing.T, server string, after time.Duration) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var passing sync.WaitGroup
	pass := func(near net.Conn) {
		defer near.Close()
		<-time.After(after)
		far, err := net.Dial("tcp", server)
		if err != nil {
			t.Error(err)
			return
		}
		defer far.Close()
		passing.Go(func() {
			_, _ = io.Copy(far, near)
			_ = far.Close()
		})
		_, _ = io.Copy(near, far)
	}
	passing.Go(func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			passing.Go(func() { pass(near) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		passing.Wait()
	})
	return listener.Addr().String()
}
