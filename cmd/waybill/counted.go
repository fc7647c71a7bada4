//go:build counted

package main

import (
	"fmt"
	"os"

	"waybill.dev/cmd/internal/sqlitework"
)

// init makes a program that is built for cmd/lab/bench log the work of SQLite for each statement: a line with
// its steps and pages in the file that COUNT_STATEMENTS names.
//
//nolint:gochecknoinits // no program that is shipped has this
func init() {
	file, err := os.OpenFile(os.Getenv("COUNT_STATEMENTS"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		panic(err)
	}
	sqlitework.Watch(func(s sqlitework.Statement) {
		if _, err := fmt.Fprintf(file, "%d %d %q\n", s.Steps, s.Pages, s.Text); err != nil {
			panic(err)
		}
	})
}
