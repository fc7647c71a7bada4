package store_test

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gorm.io/gorm"

	"waybill.dev/shared/store"
)

// filled is a SQLite file with a table that commits of some megabytes go to.
func filled(tb testing.TB) (*store.Store, *sql.DB) {
	tb.Helper()
	s, err := store.Open(tb.Context(), store.Options{URL: "sqlite:" + filepath.Join(tb.TempDir(), "waybill.db")})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Error(err)
		}
	})
	writing, _ := s.Handles()
	if _, err := writing.ExecContext(tb.Context(), "CREATE TABLE filled (id integer PRIMARY KEY, bytes blob NOT NULL)"); err != nil {
		tb.Fatal(err)
	}
	return s, writing
}

// grow adds a megabyte in one commit.
func grow(tb testing.TB, writing *sql.DB) {
	tb.Helper()
	if _, err := writing.ExecContext(tb.Context(), megabyte); err != nil {
		tb.Fatal(err)
	}
}

// megabyte adds 256 rows of 3,900 bytes.
const megabyte = `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 256)
	INSERT INTO filled (bytes) SELECT randomblob(3900) FROM n`

// waitForLog waits until the log is as it should be, with a commit at each look: one begins it anew.
func waitForLog(t *testing.T, s *store.Store, what string, ok func(store.Log) bool) {
	t.Helper()
	writing, _ := s.Handles()
	for deadline := time.Now().Add(time.Minute); !ok(s.Log()); {
		if time.Now().After(deadline) {
			t.Fatalf("the log is %+v, want %s", s.Log(), what)
		}
		if _, err := writing.ExecContext(t.Context(), "INSERT INTO filled (bytes) VALUES (x'00')"); err != nil {
			t.Fatal(err)
		}
		select {
		case <-t.Context().Done():
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// TestLogBeginsAnew: the log of a SQLite file is moved into the file beside the commits, and begins
// anew. While somebody reads from it, it can't, and grows; then it does.
func TestLogBeginsAnew(t *testing.T) {
	t.Parallel()
	s, writing := filled(t)
	short := func(l store.Log) bool { return l.Bytes < 4<<20 }
	for range 40 {
		grow(t, writing)
	}
	waitForLog(t, s, "all of it moved and begun anew", short)

	_, reading := s.Handles()
	snapshot, err := reading.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	count := func(on interface {
		QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
	}) (n int) {
		if err := on.QueryRowContext(t.Context(), "SELECT count(*) FROM filled WHERE length(bytes) > 1").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := count(snapshot)
	for range 40 {
		grow(t, writing)
	}
	waitForLog(t, s, "40 MB that can't be moved", func(l store.Log) bool { return l.Bytes > 40<<20 && l.Waiting > 39<<20 })
	if got := count(snapshot); got != before {
		t.Errorf("the reader sees %d rows after the commits, %d before", got, before)
	}
	if err := snapshot.Rollback(); err != nil {
		t.Fatal(err)
	}
	waitForLog(t, s, "all of it moved and begun anew", short)
	if got, want := count(reading), 80*256; got != want {
		t.Errorf("there are %d rows, want %d", got, want)
	}
}

// TestCopyWhileWritten: a copy has what was committed when it began, and is whole, though others go on.
func TestCopyWhileWritten(t *testing.T) {
	t.Parallel()
	s, writing := filled(t)
	for range 30 {
		grow(t, writing)
	}
	copied, stop := make(chan error, 1), make(chan struct{})
	path := filepath.Join(t.TempDir(), "100% of a copy?.db")
	go func() {
		copied <- s.CopyTo(t.Context(), path)
		close(stop)
	}()
	written := 0
	for going := true; going; written++ {
		grow(t, writing)
		select {
		case <-stop:
			going = false
		default:
		}
	}
	if err := <-copied; err != nil {
		t.Fatal(err)
	}
	if err := s.CopyTo(t.Context(), path); err == nil {
		t.Error("a second copy went over the first")
	}
	other, err := store.Open(t.Context(), store.Options{URL: "sqlite:" + path, ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if err := other.Intact(t.Context()); err != nil {
		t.Error(err)
	}
	_, reading := other.Handles()
	var n int
	if err := reading.QueryRowContext(t.Context(), "SELECT count(*) FROM filled").Scan(&n); err != nil {
		t.Fatal(err)
	}
	if n < 30*256 || n > (30+written)*256 || n%256 != 0 {
		t.Errorf("the copy has %d rows, want whole commits of 256, from %d on", n, 30*256)
	}
}

// BenchmarkCommitBeside commits 20 KB two hundred times a second beside what makes a log long, and
// tells how long the longest commit took and how long the log became.
func BenchmarkCommitBeside(b *testing.B) {
	beside := map[string]func(ctx context.Context, s *store.Store, path string) error{
		"nothing": func(context.Context, *store.Store, string) error { return nil },
		"backup": func(ctx context.Context, s *store.Store, path string) error {
			return s.CopyTo(ctx, path)
		},
		"reader": readBesideWrites,
		"purge": func(ctx context.Context, s *store.Store, _ string) error {
			_, err := s.DropDays(ctx, time.Now())
			return err
		},
	}
	for _, name := range []string{"nothing", "reader", "backup", "purge"} {
		b.Run(name, func(b *testing.B) {
			s, writing := filled(b)
			for range 300 {
				grow(b, writing)
			}
			if name == "purge" {
				yesterday(b, s, writing)
			}
			ctx, stop := context.WithCancel(b.Context())
			ended, path := make(chan error, 1), filepath.Join(b.TempDir(), "copy.db")
			go func() { ended <- beside[name](ctx, s, path) }()
			var took []time.Duration
			longest := int64(0)
			pace := time.NewTicker(5 * time.Millisecond)
			defer pace.Stop()
			for b.Loop() {
				<-pace.C
				began := time.Now()
				if _, err := writing.ExecContext(b.Context(), "INSERT INTO filled (bytes) VALUES (randomblob(20000))"); err != nil {
					b.Error(err)
					break
				}
				took = append(took, time.Since(began))
				longest = max(longest, s.Log().Bytes)
			}
			stop()
			// What the end of the commits cut off has told nothing.
			if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
				b.Error(err)
			}
			if len(took) == 0 {
				return
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
			b.ReportMetric(float64(took[len(took)-1].Microseconds())/1000, "longest-ms")
			b.ReportMetric(float64(longest)/(1<<20), "log-MB")
		})
	}
}

// readBesideWrites holds one snapshot for as long as the product lets it, while megabytes are written.
func readBesideWrites(ctx context.Context, s *store.Store, _ string) error {
	writing, _ := s.Handles()
	return s.Snapshot(ctx, func(tx *gorm.DB) error {
		var n int
		if err := tx.Raw("SELECT count(*) FROM filled").Scan(&n).Error; err != nil {
			return err
		}
		// In parts, so that others wait for one of them alone.
		for range 219 * 8 {
			if _, err := writing.ExecContext(ctx, strings.Replace(megabyte, "256", "32", 1)); err != nil {
				return err
			}
		}
		return nil
	})
}

// yesterday stores 100,000 deliveries of yesterday.
func yesterday(b *testing.B, s *store.Store, writing *sql.DB) {
	b.Helper()
	if _, err := s.Migrate(b.Context()); err != nil {
		b.Fatal(err)
	}
	day := time.Now().AddDate(0, 0, -1)
	_, err := writing.ExecContext(b.Context(), `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000)
		INSERT INTO deliveries (day, id, account, webhook_id, event_id, event_type, status, rev, attempts, run_attempts, in_lane, reason, test, updated_at,
			attempt_id, attempt_number, attempt_started_at, attempt_us, attempt_status, attempt_error, attempt_body)
		SELECT ?, 'd' || i, 'default', 'w' || i % 10, 'e' || i, 'shipment.created', 'delivered', 1, 1, 1, 0, '', 0, ?, 'a' || i, 1, ?, 1000, 200, '', hex(randomblob(100)) FROM n`,
		s.Date(day), s.Moment(day), s.Moment(day))
	if err != nil {
		b.Fatal(err)
	}
}
