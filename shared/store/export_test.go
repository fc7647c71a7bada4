package store

// RowStructs lists the row structs of the package.
func RowStructs() []any { return []any{&logFloorRow{}, &feedOrderRow{}} }
