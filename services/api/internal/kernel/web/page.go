package web

import (
	"net/http"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"waybill.dev/shared/store"
)

// maxAnswer is the size in bytes at which a page of a list ends, whatever its limit is; it has at
// least one entry. The store does not read more than fits either.
const maxAnswer = store.MaxPageBytes

// Listing is the form of all lists of an account's resources. A page that is cut for its size has
// fewer entries than limit: the next one starts at offset plus the number of its entries.
type Listing[V any] struct {
	Data   []V `json:"data"`
	Limit  int `json:"limit"`
	Offset int `json:"offset"`
	Total  int `json:"total"`
}

// List returns a page of items, each in the form for callers.
func List[D, V any](page store.Page, total int, items []D, view func(D) V) (Listing[jsontext.Value], error) {
	data, err := Fitting(items, view)
	return Listing[jsontext.Value]{Data: data, Limit: page.Limit, Offset: page.Offset, Total: total}, err
}

// AnswerList answers with a page of a list.
func AnswerList[D, V any](c *Call, page store.Page, total int, items []D, view func(D) V) error {
	list, err := List(page, total, items, view)
	if err != nil {
		return err
	}
	return c.Answer(http.StatusOK, list)
}

// Fitting encodes the first items, as many as fit on a page.
func Fitting[D, V any](items []D, view func(D) V) ([]jsontext.Value, error) {
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

// Views returns all items as callers see them.
func Views[D, V any](items []D, view func(D) V) []V { return store.All(items, view) }

// CursorPage is a page of a list. The next page begins at its cursor; empty: this is the last page.
type CursorPage[V any] struct {
	Data       []V     `json:"data"`
	NextCursor *string `json:"nextCursor"`
}
