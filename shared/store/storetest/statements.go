package storetest

import (
	"testing"

	"gorm.io/gorm"

	"waybill.dev/shared/store"
)

// EachStatement calls f with the text of each statement that runs through gorm from now on. Nothing may have
// used the store yet. Statements that bypass gorm, as in pipeline, are not seen.
func EachStatement(t testing.TB, s *store.Store, f func(text string)) {
	t.Helper()
	handles := []*gorm.DB{s.Writing(t.Context())}
	if s.SQLite() {
		handles = append(handles, s.Reading(t.Context())) // on Postgres both are the same
	}
	note := func(tx *gorm.DB) { f(tx.Statement.SQL.String()) }
	const name = "storetest:each-statement"
	for _, db := range handles {
		calls := db.Callback()
		for _, err := range []error{
			calls.Query().After("gorm:query").Register(name, note), calls.Row().After("gorm:row").Register(name, note),
			calls.Raw().After("gorm:raw").Register(name, note), calls.Create().After("gorm:create").Register(name, note),
			calls.Update().After("gorm:update").Register(name, note), calls.Delete().After("gorm:delete").Register(name, note),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
}
