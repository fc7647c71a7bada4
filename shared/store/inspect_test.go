package store_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gorm.io/gorm"

	"waybill.dev/shared/store"
	"waybill.dev/shared/store/storetest"
)

func testInspect(t *testing.T, b *storetest.Bench) {
	schema, err := b.DB.Schema(t.Context())
	if err != nil || schema.Applied == 0 || schema.Applied != schema.Newest || len(schema.Pending) > 0 || schema.Newer() {
		t.Errorf("schema %+v, %v", schema, err)
	}
	server, err := b.DB.Server(t.Context())
	if err != nil || server.Version == "" || !b.DB.SQLite() && (server.Connections < 1 || server.MaxConnections < server.Connections || time.Since(server.Now).Abs() > time.Minute) {
		t.Errorf("server %+v, %v", server, err)
	}
	if size, err := b.DB.Size(t.Context()); err != nil || size < 4096 {
		t.Errorf("size %d, %v", size, err)
	}
	if missing, err := b.DB.MissingDays(t.Context(), storetest.Noon()); err != nil || len(missing) > 0 {
		t.Errorf("missing at first: %v, %v", missing, err)
	}
	missing, err := b.DB.MissingDays(t.Context(), storetest.Noon().AddDate(0, 0, 2))
	if want := map[bool]int{true: 0, false: 2}[b.DB.SQLite()]; err != nil || len(missing) != want {
		t.Errorf("missing after two days: %v, %v, want %d", missing, err, want)
	}
}

// next returns the number that the next transaction that adds events has.
func next(t *testing.T, s *store.Store) (n int64) {
	t.Helper()
	err := s.Snapshot(t.Context(), func(tx *gorm.DB) error {
		horizon, err := s.Horizon(tx)
		n = horizon.Next
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func testRestored(t *testing.T, b *storetest.Bench) {
	before := next(t, b.DB)
	for range 2 { // a restored database may be restored again
		if err := b.DB.Restored(t.Context()); err != nil {
			t.Fatal(err)
		}
		after := next(t, b.DB)
		if after < before+1_000_000_000_000 {
			t.Errorf("the numbers go on at %d, after %d", after, before)
		}
		before = after
	}
}

// What is opened to be read is not changed, not even by a file beside it.
func TestReadOnly(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, kind storetest.Kind) {
		d := kind.Fresh(t)
		d.Open(t, store.Options{}) // stays open
		s := storetest.Open(t, store.Options{URL: d.URL, ReadOnly: true})
		if schema, err := s.Schema(t.Context()); err != nil || schema.Applied == 0 {
			t.Errorf("schema %+v, %v", schema, err)
		}
		if err := s.Restored(t.Context()); err == nil {
			t.Error("it was written to")
		}
	})
	path := filepath.Join(t.TempDir(), "none.db")
	if s, err := store.Open(t.Context(), store.Options{URL: "sqlite:" + path, ReadOnly: true}); err == nil {
		_ = s.Close()
		t.Error("a database was opened that is not there")
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("a file was made")
	}
}

// A database that was never migrated has every migration pending, and stays as it is.
func TestSchemaOfAnEmptyDatabase(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "empty.db")
	for name, address := range map[string]string{"sqlite": "sqlite:" + path, "postgres": storetest.Empty(t).URL} {
		s := storetest.Open(t, store.Options{URL: address})
		schema, err := s.Schema(t.Context())
		if err != nil || schema.Applied != 0 || len(schema.Pending) == 0 {
			t.Errorf("%s: %+v, %v", name, schema, err)
		}
		status, err := s.MigrationStatus(t.Context())
		if err != nil || slices.ContainsFunc(status, func(m store.Migration) bool { return m.Applied }) {
			t.Errorf("%s: %+v, %v", name, status, err)
		}
	}
}

func TestCopyTo(t *testing.T) {
	t.Parallel()
	s := storetest.SQLite().Fresh(t).Open(t, store.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { // somebody writes meanwhile
		defer close(done)
		for ctx.Err() == nil {
			_ = s.RaiseFloor(ctx, storetest.Noon())
		}
	}()
	to := filepath.Join(t.TempDir(), "copy's.db")
	if err := s.CopyTo(t.Context(), to); err != nil {
		t.Fatal(err)
	}
	cancel()
	<-done
	if info, err := os.Stat(to); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the copy: %v, %v", info, err)
	}
	if err := s.CopyTo(t.Context(), to); err == nil {
		t.Error("it was overwritten")
	}
	copied := storetest.Open(t, store.Options{URL: "sqlite:" + to, ReadOnly: true})
	schema, err := copied.Schema(t.Context())
	if err != nil || len(schema.Pending) > 0 {
		t.Errorf("%+v, %v", schema, err)
	}
	if err := copied.Intact(t.Context()); err != nil {
		t.Error(err)
	}
	text, err := os.ReadFile(to)
	if err != nil {
		t.Fatal(err)
	}
	copy(text[len(text)/2:], strings.Repeat("damage", 10_000))
	damaged := filepath.Join(t.TempDir(), "damaged.db")
	if err := os.WriteFile(damaged, text, 0o600); err != nil {
		t.Fatal(err)
	}
	broken, err := store.Open(t.Context(), store.Options{URL: "sqlite:" + damaged, ReadOnly: true})
	if err != nil {
		return // it is noticed at once
	}
	if err := errors.Join(broken.Intact(t.Context()), broken.Close()); err == nil {
		t.Error("the damage was not noticed")
	}
}
