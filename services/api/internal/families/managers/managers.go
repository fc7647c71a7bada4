// Package managers serves the managers of consumers. A manager is a person who looks
// after a consumer.
package managers

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/mail"
	"slices"
	"strconv"
	"strings"

	"waybill.dev/services/api/internal/families/buckets"
	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/services/api/internal/store/access"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/input"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/auditlog"
)

// Bounds of a manager's fields, and of how many are made with a consumer; RFC 5321 has no
// longer address.
const (
	maxEmail    = 254
	maxSub      = 255
	maxManagers = 100
)

const path = buckets.ConsumerPath + "/managers"

// Store keeps managers.
type Store interface {
	CreateManager(ctx context.Context, ref access.ConsumerRef, m domain.Manager) (domain.Manager, error)
	ListManagers(ctx context.Context, ref access.ConsumerRef, page store.Page) ([]domain.Manager, int, error)
	GetManager(ctx context.Context, ref access.ConsumerRef, id string) (domain.Manager, error)
	DeleteManager(ctx context.Context, ref access.ConsumerRef, id string) error
}

// Routes returns the operations.
func Routes(managers Store) []web.Route {
	h := &handlers{managers}
	return []web.Route{
		{
			Method: http.MethodGet, Path: path, Operation: "listManagers",
			Scope: domain.ScopeBucketsRead, Handle: h.list,
		},
		{
			Method: http.MethodPost, Path: path, Operation: "createManager",
			Scope: domain.ScopeBucketsWrite, Action: auditlog.ActionCreateManager, Handle: h.create,
		},
		{
			Method: http.MethodGet, Path: path + "/{managerId}", Operation: "getManager",
			Scope: domain.ScopeBucketsRead, Handle: h.get,
		},
		{
			Method: http.MethodDelete, Path: path + "/{managerId}", Operation: "deleteManager",
			Scope: domain.ScopeBucketsWrite, Action: auditlog.ActionDeleteManager, Handle: h.delete,
		},
	}
}

type handlers struct{ store Store }

// Manager is a manager as callers see it.
type Manager struct {
	ID         string  `json:"id"`
	CreatedOn  *string `json:"createdOn"`
	Email      string  `json:"email"`
	Sub        string  `json:"sub"`
	AcceptedOn *string `json:"acceptedOn"` // our own addition; null: the person is invited
}

// View returns a manager as callers see it.
func View(m domain.Manager) Manager {
	return Manager{ID: m.ID, CreatedOn: web.Stamp(m.CreatedOn), Email: m.Email, Sub: m.Sub, AcceptedOn: web.Stamp(m.AcceptedOn)}
}

const badEmail = "must be an email address"

func read(f *input.Form) domain.Manager {
	f.Require("email", "sub")
	var m domain.Manager
	if email, ok := f.Text("email", 1, maxEmail); ok {
		if m.Email = email; !validEmail(email) {
			f.Fault(badEmail, "email")
		}
	}
	m.Sub, _ = f.Text("sub", 1, maxSub)
	return m
}

// ReadAll reads the managers of a new consumer: a list of addresses, or of managers.
func ReadAll(f *input.Form) []domain.Manager {
	elements, _ := f.Elements("managers", 0, maxManagers, true)
	managers := make([]domain.Manager, 0, len(elements))
	for i, element := range elements {
		m := domain.Manager{Email: element.Text}
		if element.Form != nil {
			m = read(element.Form)
		} else if !validEmail(element.Text) {
			f.Fault(badEmail, "managers", strconv.Itoa(i))
			continue
		}
		if slices.Contains(managers, m) {
			f.Fault("is given twice", "managers", strconv.Itoa(i))
		}
		managers = append(managers, m)
	}
	return managers
}

// Named turns the error that the account names a person too often into a problem. It returns other
// errors unchanged.
func Named(err error) error {
	var limit *domain.LimitError
	if errors.Is(err, domain.ErrLimit) && !errors.As(err, &limit) {
		return web.Conflict(fmt.Sprintf("The account names this person as a manager %d times, which is as often as it may.", domain.MaxManaged))
	}
	return err
}

// validEmail reports whether text is a bare address, with nothing around it.
func validEmail(text string) bool {
	address, err := mail.ParseAddress(text)
	return err == nil && len(text) <= maxEmail && address.Address == text && !strings.ContainsAny(text, " \t\r\n")
}

func (h *handlers) list(c *web.Call) error {
	ref, page := buckets.ReadRef(c, false), c.Page()
	if err := c.Check(); err != nil {
		return err
	}
	managers, total, err := h.store.ListManagers(c.Context(), ref, page)
	if err != nil {
		return err
	}
	return web.AnswerList(c, page, total, managers, View)
}

func (h *handlers) create(c *web.Call) error {
	ref, m := buckets.ConsumerRef(c), read(c.Form())
	if err := c.Check(); err != nil {
		return err
	}
	made, err := h.store.CreateManager(c.Context(), ref, m)
	if err != nil {
		return Named(web.Taken(err, "The consumer has this manager already."))
	}
	return c.Created(web.PathIn(ref.Account, "key-buckets", ref.Bucket, "consumers", ref.Consumer, "managers", made.ID), View(made))
}

func (h *handlers) get(c *web.Call) error {
	ref := buckets.ReadRef(c, false)
	if err := c.Check(); err != nil {
		return err
	}
	manager, err := h.store.GetManager(c.Context(), ref, c.Param("managerId"))
	if err != nil {
		return err
	}
	return c.Answer(http.StatusOK, View(manager))
}

func (h *handlers) delete(c *web.Call) error {
	ref := buckets.ConsumerRef(c)
	if err := c.Check(); err != nil {
		return err
	}
	if err := h.store.DeleteManager(c.Context(), ref, c.Param("managerId")); err != nil {
		return err
	}
	return c.NoContent()
}
