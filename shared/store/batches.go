package store

import (
	"context"
	"time"

	"gorm.io/gorm"
)

// BatchRows bounds the rows that one statement of a background task touches.
const BatchRows = 1000

// SQLite has one writer, and a commit waits until the one before it has ended.
const (
	// longestTurn is about how long a background task keeps the writer at a time.
	longestTurn = 10 * time.Millisecond
	firstRows   = 50
	fewestRows  = 10
)

// batchSizer decides how many rows a statement may touch.
type batchSizer struct {
	rows   int
	turned bool // SQLite: other writers wait during a statement
}

func (s *Store) batchSizer() batchSizer {
	if s.SQLite() {
		return turnBatches()
	}
	return batchSizer{rows: BatchRows}
}

func turnBatches() batchSizer { return batchSizer{rows: firstRows, turned: true} }

// next sets the rows of the next statement by the time that the last one took, and leaves the writer to
// others for the same time.
func (p *batchSizer) next(ctx context.Context, took time.Duration) error {
	if !p.turned {
		return nil
	}
	switch {
	case took > longestTurn:
		p.rows = max(p.rows/2, fewestRows)
	case took < longestTurn/4:
		p.rows = min(p.rows*2, BatchRows)
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(took):
		return nil
	}
}

// Batches calls f, each time with the number of rows that it may touch, until f has touched fewer. It returns how
// many rows f has touched in all. On SQLite, the number is chosen so that f keeps the writer for about longestTurn.
func (s *Store) Batches(ctx context.Context, f func(tx *gorm.DB, rows int) *gorm.DB) (int, error) {
	total := 0
	for p := s.batchSizer(); ; {
		var touched int
		var took time.Duration
		err := s.Again(ctx, func() error {
			return s.Writing(ctx).Connection(func(tx *gorm.DB) error {
				began := time.Now() // after the wait for the writer
				result := f(tx, p.rows)
				touched, took = int(result.RowsAffected), time.Since(began)
				return result.Error
			})
		})
		total += touched
		if err != nil || touched < p.rows {
			return total, err
		}
		if err := p.next(ctx, took); err != nil {
			return total, err
		}
	}
}
