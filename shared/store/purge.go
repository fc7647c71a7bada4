package store

import (
	"context"
	"fmt"
	"strings"

	"gorm.io/gorm"
)

// Purge deletes the rows of a table that match, in batches, and returns how many there were. key is the table's
// primary key, in parentheses when it has several columns. condition ends with a comparison of a column: the first
// column of the table's index of ages, or the one that follows the columns compared before, as in "step = 1 AND start
// < ?". On Postgres rows are read in the order of that index, oldest first, and deleted by their ctid: otherwise, with
// the statistics of a table that has just lost many rows, the same statement would read the whole table to find none.
// So the table must have no partitions.
func (s *Store) Purge(ctx context.Context, table, key, condition string, arg any) (int, error) {
	query := fmt.Sprintf("DELETE FROM %s WHERE %s IN (SELECT %s FROM %s WHERE %s LIMIT ?)", table, key, strings.Trim(key, "()"), table, condition)
	if age, ok := agedBy(condition); ok && !s.SQLite() {
		query = fmt.Sprintf("DELETE FROM %s WHERE ctid = ANY (ARRAY(SELECT ctid FROM %s WHERE %s ORDER BY %s LIMIT ?))", table, table, condition, age)
	}
	return s.Batches(ctx, func(tx *gorm.DB, rows int) *gorm.DB { return tx.Exec(query, arg, rows) })
}

// agedBy returns the column in the comparison at the end of a condition.
func agedBy(condition string) (string, bool) {
	words := strings.Fields(condition)
	if len(words) < 3 || words[len(words)-2] != "<" {
		return "", false
	}
	return words[len(words)-3], true
}
