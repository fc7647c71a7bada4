// Package keys has the API keys of consumers.
package keys

import (
	"context"
	"net/http"
	"time"

	"waybill.dev/services/api/internal/families/buckets"
	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/services/api/internal/store/access"
	"waybill.dev/shared/apikey"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/input"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/auditlog"
)

const path = buckets.ConsumerPath + "/keys"

// Store keeps keys.
type Store interface {
	CreateKeys(ctx context.Context, ref access.ConsumerRef, keys []domain.APIKey) ([]domain.APIKey, error)
	ListKeys(ctx context.Context, ref access.ConsumerRef, secrets bool, page store.Page) ([]domain.APIKey, int, error)
	GetKey(ctx context.Context, ref access.ConsumerRef, id string, secrets bool) (domain.APIKey, error)
	UpdateKey(ctx context.Context, ref access.ConsumerRef, id string, change func(*domain.APIKey) error) (domain.APIKey, error)
	DeleteKey(ctx context.Context, ref access.ConsumerRef, id string) error
	RollKeys(ctx context.Context, ref access.ConsumerRef, fresh domain.APIKey, expiresOn time.Time) (domain.APIKey, error)
	Buckets
}

// Buckets says of buckets whether their keys can be shown.
type Buckets interface {
	GetBucket(ctx context.Context, ref access.BucketRef) (domain.Bucket, error)
}

// Maker makes keys, and accepts keys that callers supply; see package auth.
type Maker interface {
	NewKey() domain.APIKey
	Import(key string) (domain.APIKey, error)
}

// Routes returns the operations.
func Routes(keys Store, maker Maker) []web.Route {
	h := &handlers{keys, maker}
	return []web.Route{
		{
			Method: http.MethodPost, Path: buckets.ConsumerPath + "/roll-key", Operation: "rollKeys",
			Scope: domain.ScopeBucketsWrite, Action: auditlog.ActionRollKeys, Handle: h.roll,
		},
		{
			Method: http.MethodGet, Path: path, Operation: "listKeys",
			Scope: domain.ScopeBucketsRead, Handle: h.list,
		},
		{
			Method: http.MethodPost, Path: path, Operation: "createKey",
			Scope: domain.ScopeBucketsWrite, Action: auditlog.ActionCreateKey, Handle: h.create,
		},
		{
			Method: http.MethodPost, Path: path + "/$bulk", Operation: "createKeys",
			Scope: domain.ScopeBucketsWrite, Action: auditlog.ActionCreateKeys, Handle: h.createAll,
		},
		{
			Method: http.MethodGet, Path: path + "/{keyId}", Operation: "getKey",
			Scope: domain.ScopeBucketsRead, Handle: h.get,
		},
		{
			Method: http.MethodPatch, Path: path + "/{keyId}", Operation: "updateKey",
			Scope: domain.ScopeBucketsWrite, Action: auditlog.ActionUpdateKey, Handle: h.update,
		},
		{
			Method: http.MethodDelete, Path: path + "/{keyId}", Operation: "deleteKey",
			Scope: domain.ScopeBucketsWrite, Action: auditlog.ActionDeleteKey, Handle: h.delete,
		},
	}
}

type handlers struct {
	store Store
	maker Maker
}

const taken = "A key is in use already."

func (h *handlers) list(c *web.Call) error {
	page, format := c.Page(), ReadFormat(c)
	ref := buckets.ReadRef(c, format == Visible)
	if err := c.Check(); err != nil {
		return err
	}
	if err := RequireRetrievable(c, h.store, ref.Account, ref.Bucket, format); err != nil {
		return err
	}
	keys, total, err := h.store.ListKeys(c.Context(), ref, format == Visible, page)
	if err != nil {
		return err
	}
	return web.AnswerList(c, page, total, keys, format.View)
}

func (h *handlers) create(c *web.Call) error {
	ref, key := buckets.ConsumerRef(c), ReadNew(c.OptionalForm(), h.maker)
	if err := c.Check(); err != nil {
		return err
	}
	made, err := h.store.CreateKeys(c.Context(), ref, []domain.APIKey{key})
	if c.InvalidateKeys(err) != nil {
		return web.Taken(err, taken)
	}
	return c.Created(keysPath(ref)+"/"+made[0].ID, Visible.View(made[0]))
}

// MaxBulk is how many keys one request may make.
const MaxBulk = 1000

func (h *handlers) createAll(c *web.Call) error {
	ref, forms := buckets.ConsumerRef(c), c.Forms(1, MaxBulk)
	keys := make([]domain.APIKey, 0, len(forms))
	for _, f := range forms {
		keys = append(keys, ReadNew(f, h.maker))
	}
	if err := c.Check(); err != nil {
		return err
	}
	made, err := h.store.CreateKeys(c.Context(), ref, keys)
	if c.InvalidateKeys(err) != nil {
		return web.Taken(err, taken)
	}
	list, err := web.List(store.Page{Limit: MaxBulk}, len(made), made, Visible.View)
	if err != nil {
		return err
	}
	return c.Created(keysPath(ref), list)
}

func keysPath(ref access.ConsumerRef) string {
	return web.PathIn(ref.Account, "key-buckets", ref.Bucket, "consumers", ref.Consumer, "keys")
}

func (h *handlers) get(c *web.Call) error {
	format := ReadFormat(c)
	ref := buckets.ReadRef(c, format == Visible)
	if err := c.Check(); err != nil {
		return err
	}
	if err := RequireRetrievable(c, h.store, ref.Account, ref.Bucket, format); err != nil {
		return err
	}
	key, err := h.store.GetKey(c.Context(), ref, c.Param("keyId"), format == Visible)
	if err != nil {
		return err
	}
	return c.Answer(http.StatusOK, format.View(key))
}

func (h *handlers) update(c *web.Call) error {
	ref, f := buckets.ConsumerRef(c), c.Form()
	changes, _ := read(f, h.maker)
	if err := c.Check(); err != nil {
		return err
	}
	key, err := h.store.UpdateKey(c.Context(), ref, c.Param("keyId"), changes.Make)
	if c.InvalidateKeys(err) != nil {
		return web.Taken(err, taken)
	}
	return c.Answer(http.StatusOK, Masked.View(key))
}

func (h *handlers) delete(c *web.Call) error {
	ref := buckets.ConsumerRef(c)
	if err := c.Check(); err != nil {
		return err
	}
	if err := c.InvalidateKeys(h.store.DeleteKey(c.Context(), ref, c.Param("keyId"))); err != nil {
		return err
	}
	return c.NoContent()
}

// roll makes a new key and sets an end for the others. If the new key can't be looked up later,
// this answer shows it once.
func (h *handlers) roll(c *web.Call) error {
	ref := buckets.ConsumerRef(c)
	expiresOn, _ := c.OptionalForm().Time("expiresOn") // left out: now
	if err := c.Check(); err != nil {
		return err
	}
	bucket, err := h.store.GetBucket(c.Context(), access.BucketRef{Account: ref.Account, Bucket: ref.Bucket})
	if err != nil {
		return err
	}
	key, err := h.store.RollKeys(c.Context(), ref, h.maker.NewKey(), expiresOn)
	if c.InvalidateKeys(err) != nil {
		return err
	}
	if bucket.Retrievable {
		return c.NoContent()
	}
	return c.Answer(http.StatusOK, Visible.View(key))
}

// read reads the fields of a key. given is the key itself, when the caller brings one.
func read(f *input.Form, maker Maker) (changes web.Changes[domain.APIKey], given bool) {
	if text, ok := f.Text("description", 0, web.MaxDescription); ok {
		changes.Add(func(k *domain.APIKey) { k.Description = text })
	}
	if at, ok := f.Time("expiresOn"); ok {
		changes.Add(func(k *domain.APIKey) { k.ExpiresOn = at })
	}
	if text, ok := f.Text("key", apikey.MinLength, apikey.MaxLength); ok {
		imported, err := maker.Import(text)
		if err != nil {
			f.Fault("must have visible ASCII characters only, and be one that Waybill made if it begins with wbk_", "key")
			return changes, true
		}
		given = true
		changes.Add(func(k *domain.APIKey) { k.Key, k.Suffix, k.Hash = imported.Key, imported.Suffix, imported.Hash })
	}
	return changes, given
}

// ReadNew reads a new key: it makes one unless the caller supplies one.
func ReadNew(f *input.Form, maker Maker) domain.APIKey {
	changes, given := read(f, maker)
	var key domain.APIKey
	if !given {
		key = maker.NewKey()
	}
	changes.Apply(&key)
	return key
}
