package storetest

import (
	"database/sql"
	"fmt"
	"testing"

	"modernc.org/sqlite"
)

// PagesRead returns how many pages of a SQLite file the idle connections of a handle read while do ran. That
// is the cost of a statement, however busy the machine is.
func PagesRead(t testing.TB, db *sql.DB, do func()) int {
	t.Helper()
	before := pagesRead(t, db)
	do()
	return pagesRead(t, db) - before
}

// pagesRead returns how many pages the open connections of db have read so far, from the cache or the file.
func pagesRead(t testing.TB, db *sql.DB) int {
	t.Helper()
	total := 0
	var open []*sql.Conn
	for range db.Stats().OpenConnections {
		c, err := db.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, c)
		err = c.Raw(func(driver any) error {
			status, ok := driver.(sqlite.DBStatus)
			if !ok {
				return fmt.Errorf("%T counts no pages", driver)
			}
			for _, of := range []sqlite.DBStatusOp{sqlite.DBStatusCacheHit, sqlite.DBStatusCacheMiss} {
				n, _, err := status.Status(of, false)
				if err != nil {
					return err
				}
				total += n
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range open {
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return total
}
