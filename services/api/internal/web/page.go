package web

import (
	"net/http"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"waybill.dev/shared/input"
	"waybill.dev/shared/store"
)

// maxAnswer is where a page of a list ends, in bytes, whatever its limit is; it has one
// entry at least. The store reads no more than fits either.
const maxAnswer = store.MaxPageBytes

// listing is how all lists of the management API look. A page that is cut for its size has
// fewer entries than limit: the next one starts at offset and the number of its entries.
type listing struct {
	Data   []jsontext.Value `json:"data"`
	Limit  int              `json:"limit"`
	Offset int              `json:"offset"`
	Total  int              `json:"total"`
}

// list returns a page of items, each as callers see it.
func list[D, V any](page store.Page, total int, items []D, view func(D) V) (listing, error) {
	data, err := fitting(items, view)
	return listing{Data: data, Limit: page.Limit, Offset: page.Offset, Total: total}, err
}

// answerList answers with a page of a list of the management API.
func answerList[D, V any](c *call, page store.Page, total int, items []D, view func(D) V) error {
	l, err := list(page, total, items, view)
	if err != nil {
		return err
	}
	return c.answer(http.StatusOK, l)
}

// fitting encodes the first items, so many of them as make a page.
func fitting[D, V any](items []D, view func(D) V) ([]jsontext.Value, error) {
	values, size := make([]jsontext.Value, 0, len(items)), 0
	for _, item := range items {
		value, err := json.Marshal(view(item))
		if err != nil {
			return nil, err
		}
		if size += len(value) + len(","); size > maxAnswer && len(values) > 0 {
			break
		}
		values = append(values, value)
	}
	return values, nil
}

func viewAll[D, V any](items []D, view func(D) V) []V {
	views := make([]V, 0, len(items))
	for _, item := range items {
		views = append(views, view(item))
	}
	return views
}

func readPage(q *input.Query) store.Page {
	return store.Page{Limit: q.Integer("limit", 1, maxPage, maxPage), Offset: q.Integer("offset", 0, maxOffset, 0)}
}
