// Package tunnels has the operations on tunnels and on the services behind them.
package tunnels

import (
	"context"
	"errors"
	"net/http"
	"time"

	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/input"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/auditlog"
	"waybill.dev/shared/store/tunnels"
	"waybill.dev/shared/tunnel"
)

const (
	listPath     = web.AccountPath + "/tunnels"
	path         = listPath + "/{tunnelId}"
	servicesPath = path + "/services-configuration"
)

// Store keeps tunnels.
type Store interface {
	CreateTunnel(ctx context.Context, account, name string, token domain.TunnelToken) (domain.Tunnel, error)
	ListTunnels(ctx context.Context, account string, page store.Page) ([]domain.Tunnel, int, error)
	GetTunnel(ctx context.Context, account, id string) (domain.Tunnel, error)
	RotateTunnelToken(ctx context.Context, account, id string, token domain.TunnelToken, overlap time.Duration) (domain.Tunnel, error)
	DeleteTunnel(ctx context.Context, account, id string) (domain.TunnelOperation, error)
	TeardownOperation(ctx context.Context, account, tunnel, id string) (domain.TunnelOperation, error)
}

// Services keeps the services configurations of tunnels.
type Services interface {
	TunnelServices(ctx context.Context, account, id string) (domain.TunnelServices, error)
	ConfigureTunnel(ctx context.Context, account, id string, services domain.TunnelServices) (domain.TunnelOperation, error)
	ProvisioningOperation(ctx context.Context, account, tunnel, id string) (domain.TunnelOperation, error)
}

// Options of the operations.
type Options struct {
	Tunnels  Store
	Services Services
	// Hash returns the hash by which a token is found; the token itself is never stored.
	Hash func(token string) []byte
	// Changed notifies gateways of a change.
	Changed func()
}

// Routes returns the operations.
func Routes(o Options) []web.Route {
	h := &handlers{o}
	return []web.Route{
		{
			Method: http.MethodGet, Path: listPath, Operation: "listTunnels",
			Scope: domain.ScopeGatewayRead, Handle: h.list,
		},
		{
			Method: http.MethodPost, Path: listPath, Operation: "createTunnel",
			Scope: domain.ScopeGatewayWrite, Action: auditlog.ActionCreateTunnel, Handle: h.create,
		},
		{
			Method: http.MethodGet, Path: path, Operation: "getTunnel",
			Scope: domain.ScopeGatewayRead, Handle: h.get,
		},
		{
			Method: http.MethodDelete, Path: path, Operation: "deleteTunnel",
			Scope: domain.ScopeGatewayWrite, Action: auditlog.ActionDeleteTunnel, Handle: h.delete,
		},
		{
			Method: http.MethodPost, Path: path + "/$rotate-token", Operation: "rotateTunnelToken",
			Scope: domain.ScopeGatewayWrite, Action: auditlog.ActionRotateTunnelToken, Handle: h.rotate,
		},
		{
			Method: http.MethodGet, Path: path + "/teardown-operations/{operationId}", Operation: "getTunnelTeardown",
			Scope: domain.ScopeGatewayRead, Handle: h.teardown,
		},
		{
			Method: http.MethodGet, Path: servicesPath, Operation: "getTunnelServices",
			Scope: domain.ScopeGatewayRead, Handle: h.services,
		},
		{
			Method: http.MethodPut, Path: servicesPath, Operation: "configureTunnelServices",
			Scope: domain.ScopeGatewayWrite, Action: auditlog.ActionConfigureTunnel, Handle: h.configure,
		},
		{
			Method: http.MethodGet, Path: path + "/provisioning-operations/{operationId}", Operation: "getTunnelProvisioning",
			Scope: domain.ScopeGatewayRead, Handle: h.provisioning,
		},
	}
}

type handlers struct{ Options }

func (h *handlers) list(c *web.Call) error {
	account, page := c.Account(), c.Page()
	if err := c.Check(); err != nil {
		return err
	}
	list, total, err := h.Tunnels.ListTunnels(c.Context(), account, page)
	if err != nil {
		return err
	}
	return web.AnswerList(c, page, total, list, item)
}

func (h *handlers) create(c *web.Call) error {
	account := c.Account()
	name := readName(c.Form())
	if err := c.Check(); err != nil {
		return err
	}
	token, kept := h.token()
	made, err := h.Tunnels.CreateTunnel(c.Context(), account, name, kept)
	if errors.Is(err, domain.ErrLimit) {
		return web.Conflict("The account has 100 tunnels. It can't have more.")
	}
	if err != nil {
		return web.Taken(err, "The account has a tunnel of this name already.")
	}
	h.Changed()
	shown := view(made)
	shown.Token = token.Reveal()
	return c.Created(web.PathIn(made.Account, "tunnels", made.ID), shown)
}

// token returns a new token, and the part of it that is stored.
func (h *handlers) token() (domain.Secret, domain.TunnelToken) {
	token := tunnel.NewToken()
	return token, domain.TunnelToken{Hash: h.Hash(token.Reveal()), Suffix: tunnel.Suffix(token.Reveal())}
}

func (h *handlers) get(c *web.Call) error {
	account := c.Account()
	if err := c.Check(); err != nil {
		return err
	}
	t, err := h.Tunnels.GetTunnel(c.Context(), account, c.Param("tunnelId"))
	if err != nil {
		return err
	}
	return c.Answer(http.StatusOK, view(t))
}

func (h *handlers) rotate(c *web.Call) error {
	account := c.Account()
	seconds, _ := c.OptionalForm().Integer("overlapSeconds", 0, int(domain.MaxTunnelOverlap/time.Second))
	if err := c.Check(); err != nil {
		return err
	}
	token, kept := h.token()
	t, err := h.Tunnels.RotateTunnelToken(c.Context(), account, c.Param("tunnelId"), kept, time.Duration(seconds)*time.Second)
	if err != nil {
		return err
	}
	h.Changed()
	shown := view(t)
	shown.Token = token.Reveal()
	return c.Answer(http.StatusOK, shown)
}

func (h *handlers) delete(c *web.Call) error {
	account := c.Account()
	if err := c.Check(); err != nil {
		return err
	}
	operation, err := h.Tunnels.DeleteTunnel(c.Context(), account, c.Param("tunnelId"))
	if err != nil {
		return err
	}
	h.Changed()
	return c.Answer(http.StatusOK, showOperation(operation))
}

func (h *handlers) teardown(c *web.Call) error {
	return showProgress(c, h.Tunnels.TeardownOperation)
}

func (h *handlers) provisioning(c *web.Call) error {
	return showProgress(c, h.Services.ProvisioningOperation)
}

func showProgress(c *web.Call, read func(ctx context.Context, account, tunnel, id string) (domain.TunnelOperation, error)) error {
	account := c.Account()
	if err := c.Check(); err != nil {
		return err
	}
	operation, err := read(c.Context(), account, c.Param("tunnelId"), c.Param("operationId"))
	if err != nil {
		return err
	}
	return c.Answer(http.StatusOK, showOperation(operation))
}

func (h *handlers) services(c *web.Call) error {
	account := c.Account()
	if err := c.Check(); err != nil {
		return err
	}
	services, err := h.Services.TunnelServices(c.Context(), account, c.Param("tunnelId"))
	if err != nil {
		return err
	}
	return c.Answer(http.StatusOK, services)
}

func (h *handlers) configure(c *web.Call) error {
	account := c.Account()
	services := readServices(c.Form())
	if err := c.Check(); err != nil {
		return err
	}
	operation, err := h.Services.ConfigureTunnel(c.Context(), account, c.Param("tunnelId"), services)
	switch {
	case errors.Is(err, tunnels.ErrServiceName):
		return web.Conflict("Another tunnel of the account has a service of one of the names, or is about to have it.")
	case errors.Is(err, tunnels.ErrConfiguring):
		return web.Conflict("Another services configuration of the tunnel is on its way. Wait for its operation.")
	case err != nil:
		return err
	}
	h.Changed()
	return c.Answer(http.StatusOK, showOperation(operation))
}

func readName(f *input.Form) string {
	f.Require("name")
	name, ok := f.Text("name", 3, 24)
	if ok && !domain.ValidTunnelName(name) {
		f.Fault("must match "+nameForm, "name")
	}
	return name
}
