package main

import "strconv"

// A plan of SQLite does not tell whether a LIMIT ends a loop, nor whether rows are passed over in it.
// The program that SQLite makes of the plan does: a loop ends with Next or Prev, which go back to its
// beginning; DecrJumpZero leaves it at the LIMIT; and an instruction that goes straight to the Next
// passes a row over.

// loops returns the tables and indexes that a program reads from their end on, and those that it reads in
// loops that a LIMIT ends, without passing over a row.
func (p *sqlitePlanner) loops(program [][]string) (whole, bounded map[string]bool) {
	const opcode, p1, p2, p3 = 1, 2, 3, 4
	whole, bounded = map[string]bool{}, map[string]bool{}
	cursors, loaded := map[string]string{}, map[string]string{} // trees by cursor, columns by register
	for at, i := range program {
		name, known := cursors[i[p1]]
		switch op := i[opcode]; {
		case op == "OpenRead" || op == "OpenWrite" || op == "ReopenIdx":
			cursors[i[p1]] = p.roots[i[p2]]
		case !known:
		case op == "Column":
			if layout, n := p.trees[name].layout, number(i[p2]); n < len(layout) {
				loaded[i[p3]] = layout[n]
			}
		case op == "Rewind" || op == "Last":
			whole[name] = true
		case op == "Next" || op == "Prev":
			ends, passes := false, false
			for _, inner := range program[number(i[p2]):at] {
				ends = ends || inner[opcode] == "DecrJumpZero" && number(inner[p2]) > at
				if number(inner[p2]) != at || inOrder[loaded[inner[p1]]] || inOrder[loaded[inner[p3]]] {
					continue
				}
				// The row of an entry of the index is there.
				found := lookups[inner[opcode]] && p.trees[cursors[inner[p1]]].table == p.trees[name].table
				passes = passes || conditions[inner[opcode]] && !found
			}
			was, before := bounded[name]
			bounded[name] = ends && !passes && (was || !before)
		}
	}
	return whole, bounded
}

func number(s string) int {
	n, _ := strconv.Atoi(s) // SQLite writes no other
	return n
}

// inOrder are columns that go with ids, which begin with a time: a condition on one passes over no
// more rows than the same condition on the id.
var inOrder = map[string]bool{"day": true} //nolint:gochecknoglobals // a table

// lookups are the instructions that go elsewhere if there is no such row.
var lookups = map[string]bool{"NotExists": true, "NotFound": true, "SeekRowid": true} //nolint:gochecknoglobals // a table

// conditions are the instructions that go elsewhere if something of a row is so, or not so.
var conditions = map[string]bool{ //nolint:gochecknoglobals // a table
	"ElseEq": true, "Eq": true, "Filter": true, "Found": true, "Ge": true, "Gt": true, "IdxGE": true, "IdxGT": true, "IdxLE": true, "IdxLT": true,
	"If": true, "IfNoHope": true, "IfNot": true, "IfNullRow": true, "IsNull": true, "IsTrue": true, "IsType": true, "Last": true, "Le": true, "Lt": true,
	"Ne": true, "NoConflict": true, "NotExists": true, "NotFound": true, "NotNull": true, "Rewind": true, "RowSetTest": true,
	"SeekGE": true, "SeekGT": true, "SeekLE": true, "SeekLT": true, "SeekRowid": true, "VFilter": true,
}
