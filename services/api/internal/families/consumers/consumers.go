// Package consumers has the consumers of a bucket, which hold its keys, each with its scopes.
package consumers

import (
	"github.com/go-json-experiment/json/jsontext"

	"context"
	"net/http"

	"waybill.dev/services/api/internal/families/buckets"
	"waybill.dev/services/api/internal/families/keys"
	"waybill.dev/services/api/internal/families/managers"
	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/services/api/internal/store/access"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/store/auditlog"
)

const (
	listPath = buckets.Path + "/consumers"
	maxName  = 128
)

// Store keeps consumers.
type Store interface {
	CreateConsumer(ctx context.Context, c domain.Consumer, managers []domain.Manager, keys []domain.APIKey) (access.ConsumerView, error)
	ListConsumers(ctx context.Context, account, bucket string, filter access.ConsumerFilter, with access.Parts) ([]access.ConsumerView, int, error)
	GetConsumer(ctx context.Context, ref access.ConsumerRef, with access.Parts) (access.ConsumerView, error)
	UpdateConsumer(ctx context.Context, ref access.ConsumerRef, change func(*domain.Consumer) error) (domain.Consumer, error)
	DeleteConsumer(ctx context.Context, ref access.ConsumerRef) error
	keys.Buckets
}

// Routes returns the operations.
func Routes(consumers Store, maker keys.Maker) []web.Route {
	h := &handlers{consumers, maker}
	return []web.Route{
		{
			Method: http.MethodGet, Path: listPath, Operation: "listConsumers",
			Scope: domain.ScopeBucketsRead, Handle: h.list,
		},
		{
			Method: http.MethodPost, Path: listPath, Operation: "createConsumer",
			Scope: domain.ScopeBucketsWrite, Action: auditlog.ActionCreateConsumer, Handle: h.create,
		},
		{
			Method: http.MethodGet, Path: buckets.ConsumerPath, Operation: "getConsumer",
			Scope: domain.ScopeBucketsRead, Handle: h.get,
		},
		{
			Method: http.MethodPatch, Path: buckets.ConsumerPath, Operation: "updateConsumer",
			Scope: domain.ScopeBucketsWrite, Action: auditlog.ActionUpdateConsumer, Handle: h.update,
		},
		{
			Method: http.MethodDelete, Path: buckets.ConsumerPath, Operation: "deleteConsumer",
			Scope: domain.ScopeBucketsWrite, Action: auditlog.ActionDeleteConsumer, Long: true, Handle: h.delete,
		},
	}
}

type handlers struct {
	store Store
	maker keys.Maker
}

// Consumer is a consumer as callers see it.
type Consumer struct {
	ID          string            `json:"id"`
	Name        string            `json:"name"`
	CreatedOn   *string           `json:"createdOn"`
	UpdatedOn   *string           `json:"updatedOn"`
	Description string            `json:"description"`
	Tags        map[string]string `json:"tags"`
	Metadata    jsontext.Value    `json:"metadata"`
	Scopes      []domain.Scope    `json:"scopes"`
	// Set if the request asks for them, or if they have just been made.
	APIKeys  *[]keys.Key         `json:"apiKeys,omitzero"`
	Managers *[]managers.Manager `json:"managers,omitzero"`
}

func view(c domain.Consumer) Consumer {
	v := Consumer{
		ID: c.ID, Name: c.Name, CreatedOn: web.Stamp(c.CreatedOn), UpdatedOn: web.Stamp(c.UpdatedOn),
		Description: c.Description, Tags: c.Tags, Metadata: jsontext.Value(c.Metadata), Scopes: c.Scopes,
	}
	if len(v.Metadata) == 0 {
		v.Metadata = jsontext.Value("{}")
	}
	return v
}

// parts says what is shown with consumers.
type parts struct {
	keys, managers bool
	format         keys.Format
}

func readParts(c *web.Call) parts {
	q := c.Query()
	var p parts
	p.keys, _ = q.Bool("include-api-keys")
	p.managers, _ = q.Bool("include-managers")
	// Invited managers are always shown with the others: the parameter is accepted and has no
	// effect.
	_, _ = q.Bool("include-manager-invites")
	p.format = keys.ReadFormat(c)
	return p
}

// ofStore returns the parts to read from the store.
func (p parts) ofStore() access.Parts {
	return access.Parts{Keys: p.keys, Secrets: p.keys && p.format == keys.Visible, Managers: p.managers}
}

func (p parts) view(v access.ConsumerView) Consumer {
	shown := view(v.Consumer)
	if p.keys {
		list := web.Views(v.Keys, p.format.View)
		shown.APIKeys = &list
	}
	if p.managers {
		list := web.Views(v.Managers, managers.View)
		shown.Managers = &list
	}
	return shown
}

func (h *handlers) list(c *web.Call) error {
	account, bucket := c.Account(), c.Param("bucketName")
	filter := access.ConsumerFilter{Tags: c.Tags(), Page: c.Page()}
	filter.ManagerEmail, _ = c.Query().Text("manager-email")
	filter.Search = c.Query().Within("q", web.MaxSearch)
	with := readParts(c)
	if err := c.Check(); err != nil {
		return err
	}
	if err := keys.RequireRetrievable(c, h.store, account, bucket, with.format); err != nil {
		return err
	}
	consumers, total, err := h.store.ListConsumers(c.Context(), account, bucket, filter, with.ofStore())
	if err != nil {
		return err
	}
	for _, v := range consumers {
		if !with.ofStore().Secrets {
			break
		}
		if err := c.MayGive(v.Scopes); err != nil {
			return err
		}
	}
	return web.AnswerList(c, filter.Page, total, consumers, with.view)
}

func (h *handlers) create(c *web.Call) error {
	consumer := domain.Consumer{Account: c.Account(), Bucket: c.Param("bucketName")}
	withKey, _ := c.Query().Bool("with-api-key")
	f := c.Form()
	consumer.Name = web.ReadName(f, 1, maxName)
	said := readNew(f, h.maker)
	if err := c.Check(); err != nil {
		return err
	}
	if err := c.MayGive(said.scopes); err != nil {
		return err
	}
	if withKey {
		said.keys = append(said.keys, h.maker.NewKey())
	}
	said.Apply(&consumer)
	made, err := h.store.CreateConsumer(c.Context(), consumer, said.managers, said.keys)
	if c.InvalidateKeys(err) != nil {
		return managers.Named(web.Taken(err, "There is a consumer of this name in the bucket already, or one of the keys is in use."))
	}
	shown := parts{keys: len(said.keys) > 0, managers: len(said.managers) > 0, format: keys.Visible}
	return c.Created(web.PathIn(consumer.Account, "key-buckets", consumer.Bucket, "consumers", made.Name), shown.view(made))
}

func (h *handlers) get(c *web.Call) error {
	with := readParts(c)
	ref := buckets.ReadRef(c, with.ofStore().Secrets)
	if err := c.Check(); err != nil {
		return err
	}
	if err := keys.RequireRetrievable(c, h.store, ref.Account, ref.Bucket, with.format); err != nil {
		return err
	}
	v, err := h.store.GetConsumer(c.Context(), ref, with.ofStore())
	if err != nil {
		return err
	}
	return c.Answer(http.StatusOK, with.view(v))
}

func (h *handlers) update(c *web.Call) error {
	ref, said := buckets.ConsumerRef(c), read(c.Form())
	if err := c.Check(); err != nil {
		return err
	}
	consumer, err := h.store.UpdateConsumer(c.Context(), ref, func(consumer *domain.Consumer) error {
		// guard has checked both the present scopes and the new ones.
		said.Apply(consumer)
		return c.MayGive(consumer.Scopes)
	})
	if c.InvalidateKeys(err) != nil {
		return err
	}
	return c.Answer(http.StatusOK, view(consumer))
}

func (h *handlers) delete(c *web.Call) error {
	ref := buckets.ConsumerRef(c)
	if err := c.Check(); err != nil {
		return err
	}
	if err := c.InvalidateKeys(h.store.DeleteConsumer(c.Context(), ref)); err != nil {
		return err
	}
	return c.NoContent()
}
