package store

import "gorm.io/gorm"

// MaxPageBytes is what the rows of a page may weigh together, in bytes: a page has fewer rows
// than were asked for when they are large, but one at least. So the memory that a list takes
// does not grow with what others have put into it.
const MaxPageBytes = 4 << 20

// Page is a part of a list: so many, after so many. Lists are oldest first, what was made
// at the same time in the order in which it was made.
type Page struct{ Limit, Offset int }

// OldestFirst is how tables with seq are ordered.
const OldestFirst = "created_at, seq"

// Weight is what a row weighs, in bytes, as SQL. Step is how many rows are weighed at a time;
// 0: all of the page.
type Weight struct {
	SQL  string
	Step int
}

// ListPage returns a page of what query finds, and how many it finds in all. Rows that are
// small in any case need no weight.
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

// Fits returns how many rows of the page are to be read. A limit below zero is none.
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

// Fitting returns how many of the first rows make a page.
func Fitting(weights []int64) int {
	sum := int64(0)
	for i, w := range weights {
		if sum += w; sum > MaxPageBytes && i > 0 {
			return i
		}
	}
	return len(weights)
}
