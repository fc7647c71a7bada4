package main

import (
	"slices"
)

// access is how a plan reads one table.
type access struct {
	table string
	index string // empty: none, or the table's own order
	// equal are the columns that a search compares with one value or several, ranged those that it
	// bounds on one side or both.
	equal, ranged []string
	first         string   // the first column of the index
	unique        []string // the columns of an index in which each value is once; nil: it is not so
	search        bool     // else all of the table or index is read
	temporary     bool     // an index is made for this one statement
	bounded       bool     // a LIMIT ends the reading, and each row that is read counts
	text          string   // as the database says it
}

// Faults of an access.
const (
	wholeTable    = "reads a whole table"
	wholeIndex    = "reads a whole index"
	madeIndex     = "makes an index of a whole table"
	notFirst      = "uses an index without its first column"
	allOfTenant   = "reads all that a tenant has"
	rangeOfTenant = "reads a range of what a tenant has"
	openRange     = "reads a range"
	notPlanned    = "can't be planned"
	notUnderstood = "has a plan that this check does not understand"
)

// fault returns what is wrong with an access; empty: nothing.
func (a access) fault() string {
	compared := func(column string) bool { return slices.Contains(a.equal, column) }
	switch {
	case fixed[a.table]:
		return ""
	case a.temporary:
		return madeIndex
	case a.bounded:
		return ""
	case !a.search && a.index != "":
		return wholeIndex
	case !a.search:
		return wholeTable
	case !compared(a.first) && !slices.Contains(a.ranged, a.first):
		return notFirst
	case a.unique != nil && all(a.unique, compared): // one row
		return ""
	case len(a.equal) == 0:
		return openRange
	case !all(a.equal, func(column string) bool { return tenants[column] }):
		return ""
	case len(a.ranged) > 0:
		return rangeOfTenant
	default:
		return allOfTenant
	}
}

func all(list []string, holds func(string) bool) bool {
	return !slices.ContainsFunc(list, func(s string) bool { return !holds(s) })
}

// fault is what is wrong with a statement.
type fault struct {
	table string // empty: all of the statement
	what  string
	text  string // as the database says it
}

// faultsOf returns what is wrong with a statement's accesses, each once.
func faultsOf(accesses []access) []fault {
	var faults []fault
	for _, a := range accesses {
		f := fault{a.table, a.fault(), a.text}
		if f.what != "" && !slices.Contains(faults, f) {
			faults = append(faults, f)
		}
	}
	return faults
}
