package store

import "gorm.io/gorm"

// MaxPageBytes is how many bytes the rows of a page may take together. A page of large rows has
// fewer rows than were asked for, but at least one. So the memory for a list does not grow with the
// size of the stored rows.
const MaxPageBytes = 4 << 20

// Page is a part of a list: at most Limit rows after the first Offset. Lists are oldest first; rows
// that were made at the same time are in the order in which they were made.
type Page struct{ Limit, Offset int }

// OldestFirst is the order of tables with seq.
const OldestFirst = "created_at, seq"

// Weight is an expression in SQL for the size of a row in bytes. Step is for how many rows it is
// computed at a time; 0: for all rows of the page.
type Weight struct {
	SQL  string
	Step int
}

// All returns what each of the rows is made into.
func All[R, V any](rows []R, made func(R) V) []V {
	all := make([]V, len(rows))
	for i, row := range rows {
		all[i] = made(row)
	}
	return all
}

// ListPage returns a page of the result of query, and how many rows the result has in all. Rows
// that are always small need no weight.
func ListPage[R any](query *gorm.DB, page Page, w Weight) ([]R, int, error) {
	var total int64
	if err := query.Session(&gorm.Session{}).Count(&total).Error; err != nil {
		return nil, 0, err
	}
	limit, err := w.Fits(query, OldestFirst, page)
	if err != nil || limit == 0 {
		return nil, int(total), err
	}
	var rows []R
	err = query.Session(&gorm.Session{}).Order(OldestFirst).Limit(limit).Offset(page.Offset).Find(&rows).Error
	return rows, int(total), err
}

// Fits returns how many rows of the page to read. A negative limit means no limit.
func (w Weight) Fits(query *gorm.DB, order string, page Page) (int, error) {
	if w.SQL == "" {
		return page.Limit, nil
	}
	var weights []int64
	for page.Limit != 0 {
		step := page.Limit
		if w.Step > 0 && (step < 0 || step > w.Step) {
			step = w.Step
		}
		var some []int64
		err := query.Session(&gorm.Session{}).Select(w.SQL).Order(order).Limit(step).Offset(page.Offset + len(weights)).Scan(&some).Error
		if err != nil {
			return 0, err
		}
		weights = append(weights, some...)
		if n := Fitting(weights); n < len(weights) || len(some) < step || step < 0 {
			return n, nil
		}
		if page.Limit > 0 {
			page.Limit -= step
		}
	}
	return len(weights), nil
}

// Fitting returns how many rows, from the first on, fit into a page.
func Fitting(weights []int64) int {
	sum := int64(0)
	for i, w := range weights {
		if sum += w; sum > MaxPageBytes && i > 0 {
			return i
		}
	}
	return len(weights)
}
