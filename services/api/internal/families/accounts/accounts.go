// Package accounts has the accounts of an installation, their projects, and the operation that tells callers
// who they are.
package accounts

import (
	"context"
	"net/http"

	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/auditlog"
)

const (
	path    = "/v1/accounts"
	maxName = 64
)

// Accounts keeps accounts.
type Accounts interface {
	CreateAccount(ctx context.Context, name string, key domain.APIKey) (domain.Account, domain.APIKey, error)
	ListAccounts(ctx context.Context, page store.Page) ([]domain.Account, int, error)
	GetAccount(ctx context.Context, name string) (domain.Account, error)
	CreateAdminKey(ctx context.Context, account string, key domain.APIKey) (domain.APIKey, error)
}

// Projects keeps projects.
type Projects interface {
	CreateProject(ctx context.Context, account, name string) (domain.Project, error)
	GetProject(ctx context.Context, account, name string) (domain.Project, error)
	UpdateProject(ctx context.Context, account, name string, change func(*domain.Project) error) (domain.Project, error)
	ListProjects(ctx context.Context, account string, page store.Page) ([]domain.Project, int, error)
}

// Options of the routes; all are required.
type Options struct {
	Accounts Accounts
	Projects Projects
	Keys     Keys
}

// Keys makes keys; see package auth.
type Keys interface {
	NewKey() domain.APIKey
}

// Routes returns the operations.
func Routes(options Options) []web.Route {
	h := &handlers{options}
	return []web.Route{
		{
			Method: http.MethodGet, Path: "/v1/who-am-i", Operation: "whoAmI",
			Scope: domain.ScopeAny, Handle: whoAmI,
		},
		{
			Method: http.MethodGet, Path: path, Operation: "listAccounts",
			Scope: domain.ScopeAny, Handle: h.list,
		},
		{
			Method: http.MethodPost, Path: path, Operation: "createAccount",
			Scope: domain.ScopeAdmin, Action: auditlog.ActionCreateAccount, Handle: h.create,
		},
		{
			Method: http.MethodGet, Path: web.AccountPath, Operation: "getAccount",
			Scope: domain.ScopeAny, Handle: h.get,
		},
		{
			Method: http.MethodPost, Path: web.AccountPath + "/admin-keys", Operation: "createAdminKey",
			Scope: domain.ScopeAdmin, Action: auditlog.ActionCreateAdminKey, Handle: h.createAdminKey,
		},
		{
			Method: http.MethodGet, Path: web.ProjectPath, Operation: "getProject",
			Scope: domain.ScopeBucketsRead, Or: domain.ScopeGatewayRead, Handle: h.getProject,
		},
		{
			Method: http.MethodPatch, Path: web.ProjectPath, Operation: "updateProject",
			Scope: domain.ScopeGatewayWrite, Action: auditlog.ActionUpdateProject, Handle: h.updateProject,
		},
		{
			Method: http.MethodGet, Path: web.AccountPath + "/projects", Operation: "listProjects",
			Scope: domain.ScopeBucketsRead, Handle: h.listProjects,
		},
		{
			Method: http.MethodPost, Path: "/v1/projects", Operation: "createProject",
			Scope: domain.ScopeBucketsWrite, Action: auditlog.ActionCreateProject, Handle: h.createProject,
		},
	}
}

type handlers struct{ Options }

// Account is an account as callers see it.
type Account struct {
	ID        string  `json:"id"`
	Name      string  `json:"name"`
	CreatedOn *string `json:"createdOn"`
	// Key is an admin key of a new account, shown when it is made.
	Key string `json:"key,omitzero"`
}

func view(a domain.Account) Account {
	return Account{ID: a.ID, Name: a.Name, CreatedOn: web.Stamp(a.CreatedOn)}
}

// Caller describes the caller.
type Caller struct {
	Sub     string         `json:"sub"`
	Account string         `json:"account"`
	Scopes  []domain.Scope `json:"scopes"`
}

// whoAmI tells a caller the account, consumer and scopes of its key. Keys belong to no person, so there is
// never an email.
func whoAmI(c *web.Call) error {
	if err := c.Check(); err != nil {
		return err
	}
	return c.Answer(http.StatusOK, Caller{c.Principal.ID, c.Principal.Account, c.Principal.Scopes})
}

// list shows all accounts to the bootstrap key, and to others their own.
func (h *handlers) list(c *web.Call) error {
	page := c.Page()
	if err := c.Check(); err != nil {
		return err
	}
	if c.Bootstrap() {
		accounts, total, err := h.Accounts.ListAccounts(c.Context(), page)
		if err != nil {
			return err
		}
		return web.AnswerList(c, page, total, accounts, view)
	}
	account, err := h.Accounts.GetAccount(c.Context(), c.Principal.Account)
	if err != nil {
		return err
	}
	accounts := []domain.Account{account}
	return web.AnswerList(c, page, len(accounts), accounts[min(page.Offset, len(accounts)):], view)
}

// anyAccount is like c.Account, for operations that the bootstrap key may use on every account.
func anyAccount(c *web.Call) string {
	if c.Bootstrap() {
		return c.Param("accountName")
	}
	return c.Account()
}

// get shows any account to the bootstrap key, and to others their own.
func (h *handlers) get(c *web.Call) error {
	name := anyAccount(c)
	if err := c.Check(); err != nil {
		return err
	}
	account, err := h.Accounts.GetAccount(c.Context(), name)
	if err != nil {
		return err
	}
	return c.Answer(http.StatusOK, view(account))
}

func (h *handlers) create(c *web.Call) error {
	c.BootstrapOnly()
	name := web.ReadName(c.Form(), 1, maxName)
	if err := c.Check(); err != nil {
		return err
	}
	account, key, err := h.Accounts.CreateAccount(c.Context(), name, h.Keys.NewKey())
	if c.InvalidateKeys(err) != nil {
		return web.Taken(err, "There is an account of this name already.")
	}
	made := view(account)
	made.Key = key.Key.Reveal()
	return c.Created(web.PathIn(account.Name), made)
}

// AdminKey is a new one, in full.
type AdminKey struct {
	Key string `json:"key"`
}

// createAdminKey makes a new admin key for an account that has lost all of its admin keys.
func (h *handlers) createAdminKey(c *web.Call) error {
	name := anyAccount(c)
	c.BootstrapOnly()
	c.OptionalForm() // the body has no members
	if err := c.Check(); err != nil {
		return err
	}
	key, err := h.Accounts.CreateAdminKey(c.Context(), name, h.Keys.NewKey())
	if c.InvalidateKeys(err) != nil {
		return web.Taken(err, "The account's bucket or consumer admin has just been made by another request. Try again.")
	}
	return c.Answer(http.StatusCreated, AdminKey{key.Key.Reveal()})
}
