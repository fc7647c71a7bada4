package store

import "gorm.io/gorm"

// Unique reads the row that a unique key of several columns leads to. Take would add LIMIT 1: where many
// accounts use one name, Postgres then takes a scan of the table for the shorter way to a first row.
func Unique(query *gorm.DB, row any) error {
	result := query.Find(row)
	if result.Error == nil && result.RowsAffected == 0 {
		return gorm.ErrRecordNotFound
	}
	return result.Error
}
