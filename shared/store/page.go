package store

import "gorm.io/gorm"

// MaxPageBytes is what the rows of a page may weigh together, in bytes: a page has fewer rows
// than were asked for when they are large, but one at least. So the memory that a list takes
// does not grow with what others have put into it.
const MaxPageBytes = 4 << 20

// maxParts bounds the keys, and the managers, that are read with one consumer; all of them
// are in lists of their own.
const maxParts = 1000

// Page is a part of a list: so many, after so many. Lists are oldest first, what was made
// at the same time in the order in which it was made.
type Page struct{ Limit, Offset int }

const oldestFirst = "created_at, seq"

// weight is what a row weighs, in bytes, as SQL. step is how many rows are weighed at a time;
// 0: all of the page.
type weight struct {
	sql  string
	step int
}

// listPage returns a page of what query finds, and how many it finds in all. Rows that are
// small in any case need no weight.
func listPage[R any](query *gorm.DB, page Page, w weight) ([]R, int, error) {
	var total int64
	if err := query.Session(&gorm.Session{}).Count(&total).Error; err != nil {
		return nil, 0, err
	}
	limit, err := w.fits(query, oldestFirst, page)
	if err != nil || limit == 0 {
		return nil, int(total), err
	}
	var rows []R
	err = query.Session(&gorm.Session{}).Order(oldestFirst).Limit(limit).Offset(page.Offset).Find(&rows).Error
	return rows, int(total), err
}

// fits returns how many rows of the page are to be read. A limit below zero is none.
func (w weight) fits(query *gorm.DB, order string, page Page) (int, error) {
	if w.sql == "" {
		return page.Limit, nil
	}
	var weights []int64
	for page.Limit != 0 {
		step := page.Limit
		if w.step > 0 && (step < 0 || step > w.step) {
			step = w.step
		}
		var some []int64
		err := query.Session(&gorm.Session{}).Select(w.sql).Order(order).Limit(step).Offset(page.Offset + len(weights)).Scan(&some).Error
		if err != nil {
			return 0, err
		}
		weights = append(weights, some...)
		if n := fitting(weights); n < len(weights) || len(some) < step || step < 0 {
			return n, nil
		}
		if page.Limit > 0 {
			page.Limit -= step
		}
	}
	return len(weights), nil
}

// fitting returns how many of the first rows make a page.
func fitting(weights []int64) int {
	sum := int64(0)
	for i, w := range weights {
		if sum += w; sum > MaxPageBytes && i > 0 {
			return i
		}
	}
	return len(weights)
}
