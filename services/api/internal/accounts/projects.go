package accounts

import (
	"net/http"

	"waybill.dev/services/api/internal/web"
	"waybill.dev/shared/domain"
)

const maxProjectName = 100

type projectView struct {
	ID          string  `json:"id"`
	Name        string  `json:"name"`
	AccountName string  `json:"accountName"`
	CreatedOn   *string `json:"createdOn"`
}

func viewProject(p domain.Project) projectView {
	return projectView{ID: p.ID, Name: p.Name, AccountName: p.Account, CreatedOn: web.Stamp(p.CreatedOn)}
}

func (h *handlers) listProjects(c *web.Call) error {
	account, page := c.Account(), c.Page()
	if err := c.Check(); err != nil {
		return err
	}
	projects, total, err := h.Projects.ListProjects(c.Context(), account, page)
	if err != nil {
		return err
	}
	return web.AnswerList(c, page, total, projects, viewProject)
}

func (h *handlers) getProject(c *web.Call) error {
	account := c.Account()
	c.Query() // there are no parameters
	if err := c.Check(); err != nil {
		return err
	}
	project, err := h.Projects.GetProject(c.Context(), account, c.Param("projectName"))
	if err != nil {
		return err
	}
	return c.Answer(http.StatusOK, viewProject(project))
}

// createProject makes a project of the caller's own account, with its three buckets.
func (h *handlers) createProject(c *web.Call) error {
	c.Query() // there are no parameters
	name := web.ReadName(c.Form(), 1, maxProjectName)
	if err := c.Check(); err != nil {
		return err
	}
	project, err := h.Projects.CreateProject(c.Context(), c.Principal.Account, name)
	if err != nil {
		return web.Taken(err, "There is a project of this name already, or one of the buckets that it would get.")
	}
	return c.Created(web.PathIn(project.Account, "projects", project.Name), viewProject(project))
}
