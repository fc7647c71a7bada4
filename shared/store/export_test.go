package store

import (
	"context"
)

// RowStructs lists the row structs of the package.
func RowStructs() []any { return []any{&logFloorRow{}, &feedOrderRow{}} }

// MigrateTo applies the migrations up to a version.
func (s *Store) MigrateTo(ctx context.Context, version int64) error {
	provider, err := s.migrator()
	if err != nil {
		return err
	}
	_, err = provider.UpTo(ctx, version)
	return err
}
