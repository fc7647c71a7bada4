package store

import (
	"context"
	"fmt"
	"strings"
)

// BatchRows bounds the rows that one statement of what runs beside requests touches.
const BatchRows = 1000

// Purge deletes the rows of a table that match, in batches, and returns how many they were.
// Key is the table's primary key, in parentheses when it has several columns.
func (s *Store) Purge(ctx context.Context, table, key, condition string, arg any) (int, error) {
	query := fmt.Sprintf("DELETE FROM %s WHERE %s IN (SELECT %s FROM %s WHERE %s LIMIT ?)",
		table, key, strings.Trim(key, "()"), table, condition)
	total := 0
	for {
		var deleted int64
		err := s.Again(ctx, func() error {
			result := s.Writing(ctx).Exec(query, arg, BatchRows)
			deleted = result.RowsAffected
			return result.Error
		})
		total += int(deleted)
		if err != nil || deleted < BatchRows {
			return total, err
		}
	}
}
