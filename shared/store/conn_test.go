package store_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/storetest"
)

// connRow is a row with everything that may be NULL.
type connRow struct {
	ID   int
	Text *string
	Body []byte
	At   store.Instant
}

var connRows = store.MultiRow{Head: "INSERT INTO conn_rows (id, text, body, at) ", Tail: " RETURNING id", Types: "bigint,text,bytea,timestamptz"}

func connTable(ctx context.Context, t *testing.T, db *store.Store) {
	t.Helper()
	kind, at := "bytea", "timestamptz"
	if db.SQLite() {
		kind, at = "blob", "integer"
	}
	create := "CREATE TABLE conn_rows (id bigint PRIMARY KEY, text text, body " + kind + ", at " + at + ")"
	if err := db.Write(ctx, "", func(c store.Conn) error { return c.Batch(ctx, store.Statement{SQL: create}) }); err != nil {
		t.Fatal(err)
	}
}

func readConnRows(ctx context.Context, t *testing.T, c store.Conn) (list []connRow) {
	t.Helper()
	err := c.Query(ctx, "SELECT id, text, body, at FROM conn_rows ORDER BY id", func(scan store.Scan) error {
		var r connRow
		err := scan(&r.ID, &r.Text, &r.Body, &r.At)
		list = append(list, r)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// What a transaction writes by any of the ways is there as it was given, NULL included, and is nowhere if it fails.
func TestConn(t *testing.T) {
	storetest.Run(t, func(b *storetest.Bench) *storetest.Bench { return b }, map[string]storetest.Tests[*storetest.Bench]{"conn": {
		"writes rows and reads them": testConn,
	}})
}

func testConn(t *testing.T, b *storetest.Bench) {
	ctx := t.Context()
	connTable(ctx, t, b.DB)
	const n = 131 // no power of two
	text, at := "ä", b.DB.Now()
	want := make([]connRow, n)
	row := func(c store.Conn, i int, values []any) []any {
		want[i] = connRow{ID: i}
		if i%3 > 0 {
			want[i].Text, want[i].At = &text, store.InstantOf(at)
		}
		if i%2 > 0 {
			want[i].Body = []byte{0, byte(i)}
		}
		return append(values, i, want[i].Text, want[i].Body, c.Moment(want[i].At.Time()))
	}
	failed := errors.New("failed")
	for _, end := range []error{failed, nil} {
		err := b.DB.Write(ctx, "", func(c store.Conn) error {
			err := c.Copy(ctx, "conn_rows", []string{"id", "text", "body", "at"}, 1, func(i int, values []any) []any { return row(c, i, values) })
			if err != nil {
				return err
			}
			var values []any
			for i := 1; i < n; i++ {
				values = row(c, i, values)
			}
			returned := 0
			err = c.Batch(ctx, c.Rows(connRows, values, func(scan store.Scan) error {
				returned++
				return scan(new(int))
			})...)
			if returned != n-1 {
				t.Errorf("%d rows were returned, want %d", returned, n-1)
			}
			return errors.Join(err, end)
		})
		if !errors.Is(err, end) {
			t.Fatalf("wrote: %v, want %v", err, end)
		}
		if end != nil {
			if rows := readConnRows(ctx, t, b.DB.Conn()); len(rows) > 0 {
				t.Errorf("%d rows are there of a transaction that failed", len(rows))
			}
		}
	}
	if diff := cmp.Diff(want, readConnRows(ctx, t, b.DB.Conn())); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
	err := b.DB.Write(ctx, "", func(c store.Conn) error {
		return c.Copy(ctx, "conn_rows", []string{"id", "text", "body", "at"}, 1, func(i int, values []any) []any { return row(c, i, values) })
	})
	if !errors.Is(err, domain.ErrConflict) {
		t.Errorf("copied what was there: %v, want a conflict", err)
	}
	// Who stops reading gives the connection back, on which there is more to come.
	for range 20 {
		err := b.DB.Conn().Query(ctx, "SELECT id FROM conn_rows", func(store.Scan) error { return failed })
		if !errors.Is(err, failed) {
			t.Fatalf("read: %v, want %v", err, failed)
		}
	}
	var named int
	err = b.DB.Conn().Query(ctx, "SELECT count(*) FROM conn_rows WHERE id "+b.DB.Conn().In(), func(scan store.Scan) error { return scan(&named) }, b.DB.Conn().List([]int64{1, 130, 131}))
	if err != nil || named != 2 {
		t.Errorf("%d of three ids are there: %v, want 2", named, err)
	}
}
