package store

import (
	"context"
	"time"

	"gorm.io/gorm"
)

// BatchRows bounds the rows that one statement of what runs beside requests touches.
const BatchRows = 1000

// SQLite has one writer, and a commit waits until the one before it has ended.
const (
	// longestTurn is for how long what runs beside requests keeps the writer at a time, about.
	longestTurn = 10 * time.Millisecond
	firstRows   = 50
	fewestRows  = 10
)

// batchSizer finds out how many rows a statement may touch.
type batchSizer struct {
	rows   int
	turned bool // others wait meanwhile: on SQLite
}

func (s *Store) batchSizer() batchSizer {
	if s.SQLite() {
		return turns()
	}
	return batchSizer{rows: BatchRows}
}

func turns() batchSizer { return batchSizer{rows: firstRows, turned: true} }

// next sets the rows of the next statement by what the last one took, and leaves the writer to others for as
// long.
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

// Batches calls f, each time with the number of rows that it may touch, until it has touched fewer, and returns
// how many it has touched in all. On SQLite, the number is such that f keeps the writer for about longestTurn.
func (s *Store) Batches(ctx context.Context, f func(tx *gorm.DB, rows int) *gorm.DB) (int, error) {
	total := 0
	for p := s.batchSizer(); ; {
		var touched int
		var took time.Duration
		err := s.Again(ctx, func() error {
			return s.Writing(ctx).Connection(func(tx *gorm.DB) error {
				began := time.Now() // the writer was waited for
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
