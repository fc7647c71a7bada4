// Package clientcas has the operations on CA certificates. Routes that ask for a client certificate
// let in the clients of these CAs.
package clientcas

import (
	"context"
	"crypto/x509"
	"errors"
	"net/http"
	"time"

	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/shared/certificate"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/input"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/auditlog"
)

const (
	collection = "client-mtls-ca-certificates"
	listPath   = web.AccountPath + "/" + collection
	path       = listPath + "/{certificateId}"

	nameForm = "^[A-Za-z_$][A-Za-z0-9_$]{0,127}$"
	maxName  = 128
)

// Store keeps CA certificates.
type Store interface {
	CreateClientCA(ctx context.Context, account, name string, certificate []byte, ends time.Time) (domain.ClientCA, error)
	ListClientCAs(ctx context.Context, account string, page store.Page) ([]domain.ClientCA, int, error)
	GetClientCA(ctx context.Context, account, id string) (domain.ClientCA, error)
	RenameClientCA(ctx context.Context, account, id, name string) (domain.ClientCA, error)
	DeleteClientCA(ctx context.Context, account, id string) error
}

// Routes returns the operations. They call changed to notify gateways.
func Routes(s Store, changed func()) []web.Route {
	h := &handlers{s, changed}
	return []web.Route{
		{
			Method: http.MethodGet, Path: listPath, Operation: "listClientMtlsCaCertificates",
			Scope: domain.ScopeGatewayRead, Handle: h.list,
		},
		{
			Method: http.MethodPost, Path: listPath, Operation: "createClientMtlsCaCertificate",
			Scope: domain.ScopeGatewayWrite, Action: auditlog.ActionCreateClientCA, Handle: h.create,
		},
		{
			Method: http.MethodGet, Path: path, Operation: "getClientMtlsCaCertificate",
			Scope: domain.ScopeGatewayRead, Handle: h.get,
		},
		{
			Method: http.MethodPatch, Path: path, Operation: "updateClientMtlsCaCertificate",
			Scope: domain.ScopeGatewayWrite, Action: auditlog.ActionUpdateClientCA, Handle: h.update,
		},
		{
			Method: http.MethodDelete, Path: path, Operation: "deleteClientMtlsCaCertificate",
			Scope: domain.ScopeGatewayWrite, Action: auditlog.ActionDeleteClientCA, Handle: h.delete,
		},
	}
}

type handlers struct {
	store   Store
	changed func()
}

func (h *handlers) list(c *web.Call) error {
	account, page := c.Account(), c.Page()
	if err := c.Check(); err != nil {
		return err
	}
	list, total, err := h.store.ListClientCAs(c.Context(), account, page)
	if err != nil {
		return err
	}
	return web.AnswerList(c, page, total, list, view)
}

func (h *handlers) create(c *web.Call) error {
	account := c.Account()
	f := c.Form()
	f.Require("name", "certificate")
	name, ca := readName(f), readCertificate(f)
	if err := c.Check(); err != nil {
		return err
	}
	made, err := h.store.CreateClientCA(c.Context(), account, name, ca.Raw, ca.NotAfter)
	if errors.Is(err, domain.ErrLimit) {
		return web.Conflict("The account has 50 CA certificates. It can't have more.")
	}
	if err != nil {
		return taken(err)
	}
	h.changed()
	return c.Created(web.PathIn(made.Account, collection, made.ID), view(made))
}

func (h *handlers) get(c *web.Call) error {
	account := c.Account()
	if err := c.Check(); err != nil {
		return err
	}
	ca, err := h.store.GetClientCA(c.Context(), account, c.Param("certificateId"))
	if err != nil {
		return err
	}
	return c.Answer(http.StatusOK, view(ca))
}

func (h *handlers) update(c *web.Call) error {
	account, id := c.Account(), c.Param("certificateId")
	f := c.Form()
	name, given := readName(f), f.Has("name")
	if err := c.Check(); err != nil {
		return err
	}
	change := func() (domain.ClientCA, error) { return h.store.RenameClientCA(c.Context(), account, id, name) }
	if !given {
		change = func() (domain.ClientCA, error) { return h.store.GetClientCA(c.Context(), account, id) }
	}
	ca, err := change()
	if err != nil {
		return taken(err)
	}
	return c.Answer(http.StatusOK, view(ca))
}

func (h *handlers) delete(c *web.Call) error {
	account := c.Account()
	if err := c.Check(); err != nil {
		return err
	}
	if err := h.store.DeleteClientCA(c.Context(), account, c.Param("certificateId")); err != nil {
		return err
	}
	h.changed()
	return c.NoContent()
}

func taken(err error) error {
	return web.Taken(err, "The account has a CA certificate of this name already.")
}

func readName(f *input.Form) string {
	name, ok := f.Text("name", 1, maxName)
	if ok && !domain.ValidClientCAName(name) {
		f.Fault("must match "+nameForm, "name")
	}
	return name
}

// readCertificate reads the certificate of an authority; after a fault it is nil.
func readCertificate(f *input.Form) *x509.Certificate {
	text, ok := f.Text("certificate", 1, domain.MaxClientCABytes)
	if !ok {
		return nil
	}
	ca, err := certificate.Authority(text, time.Now())
	if err != nil {
		f.Fault(err.Error(), "certificate")
	}
	return ca
}
