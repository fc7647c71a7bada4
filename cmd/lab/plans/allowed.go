package main

import (
	"slices"
	"strings"
)

// exception lets statements do what is a fault elsewhere.
type exception struct {
	table string
	what  string // the fault; with it, what reads less of the same
	// reason says why it may be, and what bounds it. One that begins with "debt:" is to be mended.
	reason string
	by     string // a function that runs the statements, with its package; empty: any
}

// covers reports whether an exception is for a fault of a statement.
func (e exception) covers(s statement, f fault) bool {
	return (e.by == "" || slices.Contains(strings.Split(s.By, ", "), e.by)) && e.table == f.table && (e.what == f.what || slices.Contains(less[e.what], f.what))
}

func (e exception) String() string { return e.by + ", " + e.table + ": " + e.what }

// less are the faults that read less than another one: which of them a plan has depends on its database.
var less = map[string][]string{ //nolint:gochecknoglobals // a table
	wholeTable:  {wholeIndex, openRange},
	wholeIndex:  {openRange},
	allOfTenant: {rangeOfTenant},
}
