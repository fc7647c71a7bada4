package store_test

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"gorm.io/gorm"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
)

// endless is a statement that never ends by itself.
const endless = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"

// TestReadsEnd: whatever reads from a SQLite file ends after the limit, though its caller has no deadline. So the log
// begins anew.
func TestReadsEnd(t *testing.T) {
	t.Parallel()
	s, err := store.Open(t.Context(), store.Options{URL: "sqlite:" + filepath.Join(t.TempDir(), "waybill.db"), ReadLimit: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	writing, _ := s.Handles()
	if _, err := writing.ExecContext(t.Context(), "CREATE TABLE filled (id integer PRIMARY KEY, bytes blob NOT NULL)"); err != nil {
		t.Fatal(err)
	}
	ctx := context.WithoutCancel(t.Context())
	var n int
	for name, read := range map[string]func() error{
		"a statement in a snapshot": func() error {
			return s.Snapshot(ctx, func(tx *gorm.DB) error { return tx.Raw(endless).Scan(&n).Error })
		},
		"a snapshot between two statements": func() error {
			return s.Snapshot(ctx, func(tx *gorm.DB) error {
				if err := tx.Raw("SELECT count(*) FROM filled").Scan(&n).Error; err != nil {
					return err
				}
				for range 40 {
					grow(t, writing)
				}
				<-tx.Statement.Context.Done()
				return tx.Raw("SELECT 1").Scan(&n).Error
			})
		},
		"a snapshot before its commit": func() error {
			return s.Snapshot(ctx, func(tx *gorm.DB) error {
				<-tx.Statement.Context.Done()
				for !errors.Is(tx.WithContext(ctx).Exec("SELECT 1").Error, sql.ErrTxDone) {
					runtime.Gosched() // until it is rolled back
				}
				return nil
			})
		},
		"a statement": func() error { return s.Reading(ctx).Raw(endless).Scan(&n).Error },
		"rows that nobody reads": func() error {
			rows, err := s.Reading(ctx).Raw("WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n").Rows()
			if err != nil {
				return err
			}
			defer rows.Close()
			for rows.Next() {
			}
			return rows.Err()
		},
	} {
		ended := make(chan error, 1)
		go func() { ended <- read() }()
		select {
		case err := <-ended:
			if err = store.Classify(err); !errors.Is(err, domain.ErrUnavailable) {
				t.Errorf("%s ends with %v", name, err)
			}
		case <-time.After(time.Minute):
			t.Fatalf("%s does not end", name)
		}
	}
	waitForLog(t, s, "all of it moved and begun anew", func(l store.Log) bool { return l.Bytes < 4<<20 })
}
