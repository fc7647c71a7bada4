// Package variables has the variables of a project's branches.
package variables

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/input"
	"waybill.dev/shared/problem"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/auditlog"
	"waybill.dev/shared/store/deployments"
)

const (
	listPath = web.ProjectPath + "/branches/{branchName}/variables"
	path     = listPath + "/{variableName}"

	maxName = 64
)

// Store keeps variables.
type Store interface {
	CreateVariable(ctx context.Context, v domain.Variable) (domain.Variable, error)
	ListVariables(ctx context.Context, account, project, branch string, page store.Page) ([]domain.Variable, int, error)
	UpdateVariable(ctx context.Context, ref deployments.VariableRef, value *domain.Secret) (domain.Variable, error)
	DeleteVariable(ctx context.Context, ref deployments.VariableRef) error
}

// Projects says whether a project exists. No project is ever deleted.
type Projects interface {
	GetProject(ctx context.Context, account, name string) (domain.Project, error)
}

// Routes returns the operations.
func Routes(variables Store, projects Projects) []web.Route {
	h := &handlers{variables, projects}
	return []web.Route{
		{
			Method: http.MethodGet, Path: listPath, Operation: "listVariables", Slashes: true,
			Scope: domain.ScopeGatewayRead, Handle: h.list,
		},
		{
			Method: http.MethodPost, Path: listPath, Operation: "createVariable", Slashes: true,
			Scope: domain.ScopeGatewayWrite, Action: auditlog.ActionCreateVariable, Handle: h.create,
		},
		{
			Method: http.MethodPatch, Path: path, Operation: "updateVariable", Slashes: true,
			Scope: domain.ScopeGatewayWrite, Action: auditlog.ActionUpdateVariable, Handle: h.update,
		},
		{
			Method: http.MethodDelete, Path: path, Operation: "deleteVariable", Slashes: true,
			Scope: domain.ScopeGatewayWrite, Action: auditlog.ActionDeleteVariable, Handle: h.delete,
		},
	}
}

type handlers struct {
	store    Store
	projects Projects
}

// Variable is a variable as callers see it.
type Variable struct {
	Name      string  `json:"name"`
	Branch    string  `json:"branch"`
	IsSecret  bool    `json:"isSecret"`
	Value     string  `json:"value"` // empty for a secret
	CreatedOn *string `json:"createdOn"`
	UpdatedOn *string `json:"updatedOn"`
}

func view(v domain.Variable) Variable {
	shown := Variable{Name: v.Name, Branch: v.Branch, IsSecret: v.Secret, CreatedOn: web.Stamp(v.CreatedOn), UpdatedOn: web.Stamp(v.UpdatedOn)}
	if !v.Secret {
		shown.Value = v.Value.Reveal()
	}
	return shown
}

var errNoBranch = problem.New(problem.NotFound, "There is no such branch.")

// ref returns the variable that the path names. An invalid name of a branch is answered with
// notBranch.
func ref(c *web.Call, notBranch *problem.Problem) deployments.VariableRef {
	r := deployments.VariableRef{Account: c.Account(), Project: c.Param("projectName"), Branch: c.Param("branchName"), Name: c.Param("variableName")}
	if r.Branch != domain.PreviewBranch && domain.CheckBranch(r.Branch) != nil {
		c.Refuse(notBranch)
	}
	return r
}

// project checks that the project of a variable exists.
func (h *handlers) project(c *web.Call, r deployments.VariableRef) error {
	_, err := h.projects.GetProject(c.Context(), r.Account, r.Project)
	if errors.Is(err, domain.ErrNotFound) {
		return problem.New(problem.NotFound, "There is no such project.")
	}
	return err
}

func (h *handlers) list(c *web.Call) error {
	r, page := ref(c, errNoBranch), c.Page()
	if err := c.Check(); err != nil {
		return err
	}
	if err := h.project(c, r); err != nil {
		return err
	}
	variables, total, err := h.store.ListVariables(c.Context(), r.Account, r.Project, r.Branch, page)
	if err != nil {
		return err
	}
	return web.AnswerList(c, page, total, variables, view)
}

func (h *handlers) create(c *web.Call) error {
	r := ref(c, problem.Invalid(problem.Fault{Parameter: "branchName", Detail: domain.ErrBranch.Error()}))
	f := c.Form()
	v := domain.Variable{Account: r.Account, Project: r.Project, Branch: r.Branch, Name: readName(f)}
	f.Require("isSecret", "value")
	if value := readValue(f); value != nil {
		v.Value = *value
	}
	if secret, ok := f.Bool("isSecret"); ok {
		v.Secret = secret
	}
	if err := c.Check(); err != nil {
		return err
	}
	if err := h.project(c, r); err != nil {
		return err
	}
	made, err := h.store.CreateVariable(c.Context(), v)
	var limit *domain.LimitError
	if errors.Is(err, domain.ErrLimit) && !errors.As(err, &limit) {
		return web.Conflict("The branch has 100 variables. It can't have more.")
	}
	if err != nil {
		return web.Taken(err, "The branch has a variable of this name already.")
	}
	return c.Created(web.PathIn(made.Account, "projects", made.Project, "branches", made.Branch, "variables", made.Name), view(made))
}

func (h *handlers) update(c *web.Call) error {
	r := ref(c, errNoBranch)
	value := readValue(c.Form())
	if err := c.Check(); err != nil {
		return err
	}
	variable, err := h.store.UpdateVariable(c.Context(), r, value)
	if err != nil {
		return err
	}
	return c.Answer(http.StatusOK, view(variable))
}

func (h *handlers) delete(c *web.Call) error {
	r := ref(c, errNoBranch)
	if err := c.Check(); err != nil {
		return err
	}
	if err := h.store.DeleteVariable(c.Context(), r); err != nil {
		return err
	}
	return c.NoContent()
}

func readName(f *input.Form) string {
	f.Require("name")
	name, ok := f.Text("name", 1, maxName)
	switch {
	case !ok:
	case strings.HasPrefix(name, "WAYBILL_"):
		f.Fault("must not begin with WAYBILL_: those are Waybill's own", "name")
	case !domain.ValidVariableName(name):
		f.Fault("must match ^[A-Z][A-Z0-9_]{0,63}$", "name")
	}
	return name
}

// readValue returns the value, or nil when there is no valid one.
func readValue(f *input.Form) *domain.Secret {
	text, ok := f.Text("value", 0, domain.MaxVariableValue)
	switch {
	case !ok:
		return nil
	case len(text) > domain.MaxVariableValue:
		f.Fault("must have at most 5120 bytes", "value")
	case !store.Storable(text):
		f.Fault("must have no NUL", "value")
	}
	value := domain.Secret(text)
	return &value
}
