package deployments

import (
	"net/http"

	"waybill.dev/services/api/internal/web"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/store/deployments"
)

const environmentsPath = "/v1/environments"

// environments returns the operations that show deployments as the environments of a project:
// there is one for each branch that was deployed, and both have one name.
func (h *handlers) environments() []web.Route {
	return []web.Route{
		{
			Method: http.MethodGet, Path: environmentsPath, Operation: "listEnvironments", Summary: "Lists a project's environments, the oldest first.",
			Scope: domain.ScopeGatewayRead, Success: http.StatusOK, Handle: h.listEnvironments,
		},
		{
			Method: http.MethodGet, Path: environmentsPath + "/{environmentName}", Operation: "getEnvironment", Summary: "Shows an environment.",
			Scope: domain.ScopeGatewayRead, Success: http.StatusOK, Handle: h.getEnvironment,
		},
	}
}

type environmentView struct {
	Name            string                 `json:"name"`
	CreatedOn       *string                `json:"createdOn"`
	AccountName     string                 `json:"accountName"`
	ProjectName     string                 `json:"projectName"`
	BranchName      string                 `json:"branchName"`
	EnvironmentType domain.EnvironmentType `json:"environmentType"`
	DeploymentName  string                 `json:"deploymentName"`
	URLs            []string               `json:"urls"` // empty: they are not known here
	// BucketName is the bucket whose keys its routes take; null: local takes those that its
	// route files name.
	BucketName *string `json:"bucketName"`
}

func viewEnvironment(v view) environmentView {
	e := environmentView{
		Name: v.Name, CreatedOn: v.CreatedOn, AccountName: v.AccountName, ProjectName: v.ProjectName, BranchName: v.BranchName,
		EnvironmentType: v.EnvironmentType, DeploymentName: v.Name, URLs: []string{},
	}
	if v.URL != "" {
		e.URLs = append(e.URLs, v.URL)
	}
	if v.Name != LocalName {
		e.BucketName = new(v.ProjectName + "-" + v.EnvironmentType.Bucket())
	}
	return e
}

func (h *handlers) listEnvironments(c *web.Call) error {
	page, q := c.Page(), c.Query()
	account, named := q.Text("accountName")
	project, given := q.Text("projectName")
	if !named {
		q.Fault("accountName", "is required")
	} else if err := c.Of(account); err != nil {
		c.Refuse(err)
	}
	if !given {
		q.Fault("projectName", "is required")
	}
	if err := c.Check(); err != nil {
		return err
	}
	if project == "" { // which selects all of them
		return missing(domain.ErrNotFound, "project")
	}
	views, total, err := h.find(c, deployments.Filter{Account: account, Project: project, Page: page})
	if err != nil {
		return err
	}
	return web.AnswerList(c, page, total, views, viewEnvironment)
}

func (h *handlers) getEnvironment(c *web.Call) error {
	v, err := h.one(c, c.Param("environmentName"))
	if err != nil {
		return err
	}
	return c.Answer(http.StatusOK, viewEnvironment(v))
}
