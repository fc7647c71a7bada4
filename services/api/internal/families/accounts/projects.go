package accounts

import (
	"net/http"

	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/shared/domain"
)

const maxProjectName = 100

// Project is a project as callers see it.
type Project struct {
	ID          string  `json:"id"`
	Name        string  `json:"name"`
	AccountName string  `json:"accountName"`
	CreatedOn   *string `json:"createdOn"`
	// ProductionBranch is the branch with the production deployment.
	ProductionBranch string `json:"productionBranch"`
}

func viewProject(p domain.Project) Project {
	return Project{ID: p.ID, Name: p.Name, AccountName: p.Account, CreatedOn: web.Stamp(p.CreatedOn), ProductionBranch: p.ProductionBranch}
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
	if err := c.Check(); err != nil {
		return err
	}
	project, err := h.Projects.GetProject(c.Context(), account, c.Param("projectName"))
	if err != nil {
		return err
	}
	return c.Answer(http.StatusOK, viewProject(project))
}

// updateProject changes the production branch. The change takes effect with each branch's next
// build.
func (h *handlers) updateProject(c *web.Call) error {
	account := c.Account()
	f := c.Form()
	var changes web.Changes[domain.Project]
	if branch, ok := f.Text("productionBranch", 1, domain.MaxBranch); ok {
		if fault := productionFault(branch); fault != "" {
			f.Fault(fault, "productionBranch")
		}
		changes.Add(func(p *domain.Project) { p.ProductionBranch = branch })
	}
	if err := c.Check(); err != nil {
		return err
	}
	project, err := h.Projects.UpdateProject(c.Context(), account, c.Param("projectName"), changes.Make)
	if err != nil {
		return err
	}
	return c.Answer(http.StatusOK, viewProject(project))
}

func productionFault(branch string) string {
	if err := domain.CheckBranch(branch); err != nil {
		return err.Error()
	}
	if branch == domain.WorkingCopy {
		return "must not be working-copy, which is the development environment"
	}
	return ""
}

// createProject makes a project of the caller's own account, with its three buckets.
func (h *handlers) createProject(c *web.Call) error {
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
