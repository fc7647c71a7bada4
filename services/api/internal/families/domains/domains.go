// Package domains has the operations on custom domains. The verifier checks in DNS that a hostname
// belongs to the account that asks for it.
package domains

import (
	"context"
	"errors"
	"net/http"

	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/input"
	"waybill.dev/shared/problem"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/auditlog"
	"waybill.dev/shared/store/domains"
)

const (
	path            = web.AccountPath + "/custom-domains"
	certificatePath = path + "/certificate"
)

// Store keeps custom domains.
type Store interface {
	CreateCustomDomain(ctx context.Context, d domain.CustomDomain, verified bool) (domain.CustomDomain, error)
	ListCustomDomains(ctx context.Context, account string, page store.Page) ([]domain.CustomDomain, int, error)
	GetCustomDomain(ctx context.Context, account, hostname string) (domain.CustomDomain, error)
	UpdateCustomDomain(ctx context.Context, account, hostname string, change domains.Change) (domain.CustomDomain, error)
	DeleteCustomDomain(ctx context.Context, account, hostname, deployment string) error
}

// Certificates keeps the certificates that users upload.
type Certificates interface {
	PutCertificate(ctx context.Context, account, hostname string, c domain.UploadedCertificate) error
	DeleteCertificate(ctx context.Context, account, hostname string) error
}

// Options are what the operations work with.
type Options struct {
	Domains      Store
	Certificates Certificates
	// Verifier checks in DNS to which account a hostname belongs. If it is nil, nothing is checked,
	// and the first account to ask for a hostname gets it.
	Verifier *Verifier
	// Names are hostnames that can't be custom domains.
	Names Names
	// Changed notifies gateways of a change.
	Changed func()
}

// Routes returns the operations.
func Routes(o Options) []web.Route {
	h := &handlers{o}
	return []web.Route{
		{
			Method: http.MethodGet, Path: path, Operation: "listCustomDomains",
			Scope: domain.ScopeGatewayRead, Handle: h.list,
		},
		{
			Method: http.MethodPost, Path: path, Operation: "createCustomDomain",
			Scope: domain.ScopeGatewayWrite, Action: auditlog.ActionCreateDomain, Handle: h.create,
		},
		{
			Method: http.MethodPatch, Path: path, Operation: "updateCustomDomain",
			Scope: domain.ScopeGatewayWrite, Action: auditlog.ActionUpdateDomain, Handle: h.update,
		},
		{
			Method: http.MethodDelete, Path: path, Operation: "deleteCustomDomain",
			Scope: domain.ScopeGatewayWrite, Action: auditlog.ActionDeleteDomain, Handle: h.delete,
		},
		{
			Method: http.MethodPost, Path: path + "/verify", Operation: "verifyCustomDomain",
			Scope: domain.ScopeGatewayWrite, Action: auditlog.ActionVerifyDomain, Handle: h.verify,
		},
		{
			Method: http.MethodPut, Path: certificatePath, Operation: "putCustomDomainCertificate",
			Scope: domain.ScopeGatewayWrite, Action: auditlog.ActionPutCertificate, Handle: h.putCertificate,
		},
		{
			Method: http.MethodDelete, Path: certificatePath, Operation: "deleteCustomDomainCertificate",
			Scope: domain.ScopeGatewayWrite, Action: auditlog.ActionDeleteCertificate, Handle: h.deleteCertificate,
		},
	}
}

type handlers struct{ Options }

func (h *handlers) list(c *web.Call) error {
	account, page := c.Account(), c.Page()
	if err := c.Check(); err != nil {
		return err
	}
	list, total, err := h.Domains.ListCustomDomains(c.Context(), account, page)
	if err != nil {
		return err
	}
	return web.AnswerList(c, page, total, list, h.item)
}

func (h *handlers) create(c *web.Call) error {
	d := domain.CustomDomain{Account: c.Account()}
	f := c.Form()
	d.Hostname = readHostname(f)
	if fault := h.Names.refuse(d.Hostname); fault != "" && d.Hostname != "" {
		f.Fault(fault, "hostname")
	}
	d.Deployment = readDeployment(f)
	if stage, ok := f.Text("stage", 1, maxStage); ok && stage != stageAPI {
		f.Fault("must be api: there is no developer portal", "stage")
	}
	d.IsDefault, _ = f.Bool("isDefault")
	if alias, _ := f.Bool("isAlias"); alias {
		f.Fault("must be false: there are no aliases", "isAlias")
	}
	if err := c.Check(); err != nil {
		return err
	}
	made, err := h.Domains.CreateCustomDomain(c.Context(), d, h.Verifier == nil)
	if err != nil {
		return refused(err)
	}
	if h.Verifier != nil {
		// The domain exists now. If the check can't be done now, the verifier does it later.
		if checked, err := h.Verifier.Check(c.Context(), made); err == nil || errors.Is(err, domains.ErrTaken) {
			made = checked
		}
	}
	h.Changed()
	return c.Created(web.PathIn(made.Account, "custom-domains"), h.view(made))
}

func (h *handlers) update(c *web.Call) error {
	account := c.Account()
	f := c.Form()
	hostname := readHostname(f)
	var change domains.Change
	if f.Has("deploymentName") {
		name := readDeployment(f)
		change.Deployment = &name
	}
	if is, ok := f.Bool("isDefault"); ok {
		change.IsDefault = &is
	}
	if err := c.Check(); err != nil {
		return err
	}
	d, err := h.Domains.UpdateCustomDomain(c.Context(), account, hostname, change)
	if err != nil {
		return refused(err)
	}
	h.Changed()
	return c.Answer(http.StatusOK, h.view(d))
}

func (h *handlers) delete(c *web.Call) error {
	account := c.Account()
	hostname, _ := c.Query().Text("hostname")
	deployment, _ := c.Query().Text("deploymentName")
	if hostname == "" {
		c.Query().Fault("hostname", "is required")
	}
	if err := c.Check(); err != nil {
		return err
	}
	name, err := parseHostname(hostname)
	if err != nil {
		return errNoDomain
	}
	if err := h.Domains.DeleteCustomDomain(c.Context(), account, name, deployment); err != nil {
		return missing(err)
	}
	h.Changed()
	return c.NoContent()
}

func (h *handlers) verify(c *web.Call) error {
	account := c.Account()
	hostname := readHostname(c.Form())
	if err := c.Check(); err != nil {
		return err
	}
	d, err := h.Domains.GetCustomDomain(c.Context(), account, hostname)
	if err != nil {
		return missing(err)
	}
	if h.Verifier != nil {
		if d, err = h.Verifier.Check(c.Context(), d); err != nil {
			return refused(err)
		}
	}
	return c.Answer(http.StatusOK, h.view(d))
}

func (h *handlers) putCertificate(c *web.Call) error {
	account := c.Account()
	f := c.Form()
	hostname := readHostname(f)
	uploaded, leaf := readCertificate(f, hostname)
	if err := c.Check(); err != nil {
		return err
	}
	if err := h.Certificates.PutCertificate(c.Context(), account, hostname, uploaded); err != nil {
		return missing(err)
	}
	h.Changed()
	return c.Answer(http.StatusOK, showCertificate(leaf))
}

func (h *handlers) deleteCertificate(c *web.Call) error {
	account := c.Account()
	hostname := readHostname(c.Form())
	if err := c.Check(); err != nil {
		return err
	}
	if err := h.Certificates.DeleteCertificate(c.Context(), account, hostname); err != nil {
		if errors.Is(err, domain.ErrNotFound) {
			return errNoCertificate
		}
		return err
	}
	h.Changed()
	return c.NoContent()
}

var (
	errNoDomain      = problem.New(problem.NotFound, "There is no such custom domain.")
	errNoCertificate = problem.New(problem.NotFound, "There is no such custom domain, or it has no uploaded certificate.")
	errNoDeployment  = problem.New(problem.NotFound, "There is no such deployment.")
)

// missing turns an error into the problem that the custom domain does not exist.
func missing(err error) error {
	if errors.Is(err, domain.ErrNotFound) {
		return errNoDomain
	}
	return err
}

// refused turns an error into the problem why a domain is refused.
func refused(err error) error {
	switch {
	case errors.Is(err, domains.ErrTaken):
		return web.Conflict("Another account has the hostname.")
	case errors.Is(err, domain.ErrConflict):
		return web.Conflict("The account has this hostname already.")
	case errors.Is(err, domain.ErrLimit):
		return web.Conflict("The account has 100 custom domains. It can't have more.")
	case errors.Is(err, domains.ErrNoDeployment):
		return errNoDeployment
	case errors.Is(err, domains.ErrDevelopment):
		return problem.Invalid(problem.Fault{Pointer: "/deploymentName", Detail: "must not be a deployment of a development environment"})
	}
	return missing(err)
}

const (
	stageAPI      = "api"
	maxStage      = 20
	maxHostname   = 1024
	maxDeployment = 63
)

func readHostname(f *input.Form) string {
	f.Require("hostname")
	text, ok := f.Text("hostname", 1, maxHostname)
	if !ok {
		return ""
	}
	name, err := parseHostname(text)
	if err != nil {
		f.Fault(err.Error(), "hostname")
	}
	return name
}

func readDeployment(f *input.Form) string {
	name, _ := f.Text("deploymentName", 1, maxDeployment)
	if name == domain.LocalDeployment {
		f.Fault("must not be local: what the API serves has no custom domains", "deploymentName")
	}
	return name
}
