package store

import "gorm.io/gorm"

// Unique reads the one row with a unique key of several columns, or returns gorm.ErrRecordNotFound. It does not use
// gorm's Take, whose LIMIT 1 makes Postgres scan the table if many accounts use the same name.
func Unique(query *gorm.DB, row any) error {
	result := query.Find(row)
	if result.Error == nil && result.RowsAffected == 0 {
		return gorm.ErrRecordNotFound
	}
	return result.Error
}
