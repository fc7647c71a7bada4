package store

import "gorm.io/gorm"

// Unique reads the one row that a unique key of several columns has, or returns gorm.ErrRecordNotFound. Unique
// does without the LIMIT 1 of gorm's Take: with that, Postgres scans the table where many accounts use the same name.
func Unique(query *gorm.DB, row any) error {
	result := query.Find(row)
	if result.Error == nil && result.RowsAffected == 0 {
		return gorm.ErrRecordNotFound
	}
	return result.Error
}
