// Package buckets has the key buckets of an account, and reads the names of buckets and consumers
// in paths.
package buckets

import (
	"context"
	"net/http"

	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/services/api/internal/store/access"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/input"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/auditlog"
)

// Bounds of a bucket's name.
const (
	minName = 5
	maxName = 128
)

// Store keeps buckets.
type Store interface {
	CreateBucket(ctx context.Context, b domain.Bucket) (domain.Bucket, error)
	ListBuckets(ctx context.Context, account string, tags map[string]string, page store.Page) ([]domain.Bucket, int, error)
	FirstConsumers(ctx context.Context, buckets []domain.Bucket, most int) (map[string][]domain.Consumer, error)
	GetBucket(ctx context.Context, ref access.BucketRef) (domain.Bucket, error)
	UpdateBucket(ctx context.Context, ref access.BucketRef, change func(*domain.Bucket) error) (domain.Bucket, error)
	DeleteBucket(ctx context.Context, ref access.BucketRef) error
}

// Routes returns the operations.
func Routes(buckets Store) []web.Route {
	h := &handlers{buckets}
	return []web.Route{
		{
			Method: http.MethodGet, Path: listPath, Operation: "listBuckets",
			Scope: domain.ScopeBucketsRead, Handle: h.list,
		},
		{
			Method: http.MethodPost, Path: listPath, Operation: "createBucket",
			Scope: domain.ScopeBucketsWrite, Action: auditlog.ActionCreateBucket, Handle: h.create,
		},
		{
			Method: http.MethodGet, Path: Path, Operation: "getBucket",
			Scope: domain.ScopeBucketsRead, Handle: h.get,
		},
		{
			Method: http.MethodPatch, Path: Path, Operation: "updateBucket",
			Scope: domain.ScopeBucketsWrite, Action: auditlog.ActionUpdateBucket, Handle: h.update,
		},
		{
			Method: http.MethodDelete, Path: Path, Operation: "deleteBucket",
			Scope: domain.ScopeBucketsWrite, Action: auditlog.ActionDeleteBucket, Long: true, Handle: h.delete,
		},
	}
}

type handlers struct{ store Store }

// Bucket is a bucket as callers see it.
type Bucket struct {
	ID            string            `json:"id"`
	Name          string            `json:"name"`
	CreatedOn     *string           `json:"createdOn"`
	UpdatedOn     *string           `json:"updatedOn"`
	IsRetrievable bool              `json:"isRetrievable"`
	Description   string            `json:"description"`
	Tags          map[string]string `json:"tags"`
	Consumers     *[]Holder         `json:"consumers,omitzero"` // the first ones, if the request asks for them
}

// Holder is a consumer in a list of buckets.
type Holder struct {
	ID          string         `json:"id"`
	Name        string         `json:"name"`
	Description string         `json:"description"`
	Scopes      []domain.Scope `json:"scopes"`
}

// With their consumers, a page has maxWith buckets at most, each with its first maxHolders.
const (
	maxWith    = 20
	maxHolders = 100
)

func view(b domain.Bucket) Bucket {
	return Bucket{
		ID: b.ID, Name: b.Name, CreatedOn: web.Stamp(b.CreatedOn), UpdatedOn: web.Stamp(b.UpdatedOn),
		IsRetrievable: b.Retrievable, Description: b.Description, Tags: b.Tags,
	}
}

func (h *handlers) list(c *web.Call) error {
	account, page, tags := c.Account(), c.Page(), c.Tags()
	with, _ := c.Query().Bool("include-consumers")
	if err := c.Check(); err != nil {
		return err
	}
	if with {
		page.Limit = min(page.Limit, maxWith)
	}
	buckets, total, err := h.store.ListBuckets(c.Context(), account, tags, page)
	if err != nil {
		return err
	}
	if !with {
		return web.AnswerList(c, page, total, buckets, view)
	}
	first, err := h.store.FirstConsumers(c.Context(), buckets, maxHolders)
	if err != nil {
		return err
	}
	return web.AnswerList(c, page, total, buckets, func(b domain.Bucket) Bucket {
		v := view(b)
		v.Consumers = new(web.Views(first[b.Name], func(c domain.Consumer) Holder { return Holder{c.ID, c.Name, c.Description, c.Scopes} }))
		return v
	})
}

func (h *handlers) create(c *web.Call) error {
	bucket := domain.Bucket{Account: c.Account(), Retrievable: true}
	f := c.Form()
	bucket.Name = web.ReadName(f, minName, maxName)
	if retrievable, ok := f.Bool("isRetrievable"); ok {
		bucket.Retrievable = retrievable
	}
	changes := read(f)
	changes.Apply(&bucket)
	if err := c.Check(); err != nil {
		return err
	}
	made, err := h.store.CreateBucket(c.Context(), bucket)
	if err != nil {
		return web.Taken(err, "There is a bucket of this name already.")
	}
	return c.Created(web.PathIn(bucket.Account, "key-buckets", made.Name), view(made))
}

// read reads the fields that creation and PATCH have in common.
func read(f *input.Form) (changes web.Changes[domain.Bucket]) {
	if text, ok := f.Text("description", 0, web.MaxDescription); ok {
		changes.Add(func(b *domain.Bucket) { b.Description = text })
	}
	if tags, ok := web.ReadTags(f); ok {
		changes.Add(func(b *domain.Bucket) { b.Tags = tags })
	}
	return changes
}

func (h *handlers) get(c *web.Call) error {
	ref := Ref(c)
	if err := c.Check(); err != nil {
		return err
	}
	bucket, err := h.store.GetBucket(c.Context(), ref)
	if err != nil {
		return err
	}
	return c.Answer(http.StatusOK, view(bucket))
}

func (h *handlers) update(c *web.Call) error {
	ref, changes := Ref(c), read(c.Form())
	if err := c.Check(); err != nil {
		return err
	}
	bucket, err := h.store.UpdateBucket(c.Context(), ref, changes.Make)
	if err != nil {
		return err
	}
	return c.Answer(http.StatusOK, view(bucket))
}

func (h *handlers) delete(c *web.Call) error {
	ref := Ref(c)
	if err := c.Check(); err != nil {
		return err
	}
	if err := c.InvalidateKeys(h.store.DeleteBucket(c.Context(), ref)); err != nil {
		return err
	}
	return c.NoContent()
}
