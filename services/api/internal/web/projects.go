package web

import (
	"net/http"

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
	return projectView{ID: p.ID, Name: p.Name, AccountName: p.Account, CreatedOn: stamp(p.CreatedOn)}
}

func (s *server) listProjects(c *call) error {
	account, err := s.account(c)
	if err != nil {
		return err
	}
	q := c.query()
	page := readPage(q)
	if err := q.Err(); err != nil {
		return err
	}
	projects, total, err := s.Store.ListProjects(c.ctx(), account, page)
	if err != nil {
		return err
	}
	return answerList(c, page, total, projects, viewProject)
}

func (s *server) getProject(c *call) error {
	account, err := s.account(c)
	if err != nil {
		return err
	}
	if err := c.query().Err(); err != nil {
		return err
	}
	project, err := s.Store.GetProject(c.ctx(), account, c.Param("projectName"))
	if err != nil {
		return err
	}
	return c.answer(http.StatusOK, viewProject(project))
}

// createProject makes a project of the caller's own account, with its three buckets.
func (s *server) createProject(c *call) error {
	name, err := c.nameBody(maxProjectName)
	if err != nil {
		return err
	}
	project, err := s.Store.CreateProject(c.ctx(), c.principal.Account, name)
	if err != nil {
		return taken(err, "There is a project of this name already, or one of the buckets that it would get.")
	}
	return c.created(path(project.Account, "projects", project.Name), viewProject(project))
}
