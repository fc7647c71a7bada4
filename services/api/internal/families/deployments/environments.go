package deployments

import (
	"context"
	"net/http"
	"slices"

	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/deployments"
)

const environmentsPath = "/v1/environments"

// allProjects stands for every project of the account; no project has such a name.
const allProjects = "*"

// environments returns the operations that show deployments as the environments of a project: one for
// each deployed branch, with the name of its deployment.
func (h *handlers) environments() []web.Route {
	return []web.Route{
		{
			Method: http.MethodGet, Path: environmentsPath, Operation: "listEnvironments",
			Scope: domain.ScopeGatewayRead, Handle: h.listEnvironments,
		},
		{
			Method: http.MethodGet, Path: environmentsPath + "/{environmentName}", Operation: "getEnvironment",
			Scope: domain.ScopeGatewayRead, Handle: h.getEnvironment,
		},
	}
}

// Environment is the API's answer about a deployment, named as an environment of its project.
type Environment struct {
	Name            string                 `json:"name"`
	CreatedOn       *string                `json:"createdOn"`
	AccountName     string                 `json:"accountName"`
	ProjectName     string                 `json:"projectName"`
	BranchName      string                 `json:"branchName"`
	EnvironmentType domain.EnvironmentType `json:"environmentType"`
	DeploymentName  string                 `json:"deploymentName"`
	URLs            []string               `json:"urls"`
	// BucketName is the bucket of the keys for its routes; null: local, where the route files name the
	// buckets.
	BucketName *string `json:"bucketName"`
}

// viewEnvironment shows a deployment as an environment; domains are the active ones of its account.
func viewEnvironment(v Deployment, domains []domain.CustomDomain, gateway string) Environment {
	e := Environment{
		Name: v.Name, CreatedOn: v.CreatedOn, AccountName: v.AccountName, ProjectName: v.ProjectName, BranchName: v.BranchName,
		EnvironmentType: v.EnvironmentType, DeploymentName: v.Name, URLs: []string{},
	}
	if v.URL != "" {
		e.URLs = append(e.URLs, v.URL)
	}
	for _, d := range domains {
		if d.Deployment == v.Name {
			e.URLs = append(e.URLs, domainURL(gateway, d.Hostname))
		}
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
	switch project {
	case "":
		return missing(domain.ErrNotFound, "project")
	case allProjects:
		project = "" // empty selects all projects
	}
	views, total, err := h.find(c, deployments.Filter{Account: account, Project: project, Page: page})
	if err != nil {
		return err
	}
	active, err := h.activeDomains(c.Context(), account)
	if err != nil {
		return err
	}
	return web.AnswerList(c, page, total, views, func(v Deployment) Environment { return viewEnvironment(v, active, h.GatewayURL) })
}

// activeDomains returns the custom domains that an account has, the default one of each deployment first.
func (h *handlers) activeDomains(ctx context.Context, account string) ([]domain.CustomDomain, error) {
	list, _, err := h.Domains.ListCustomDomains(ctx, account, store.Page{Limit: domain.MaxCustomDomains})
	if err != nil {
		return nil, err
	}
	list = slices.DeleteFunc(list, func(d domain.CustomDomain) bool { return !d.Active() })
	slices.SortStableFunc(list, func(a, b domain.CustomDomain) int {
		switch {
		case a.IsDefault == b.IsDefault:
			return 0
		case a.IsDefault:
			return -1
		}
		return 1
	})
	return list, nil
}

func (h *handlers) getEnvironment(c *web.Call) error {
	v, err := h.one(c, c.Param("environmentName"))
	if err != nil {
		return err
	}
	active, err := h.activeDomains(c.Context(), c.Principal.Account)
	if err != nil {
		return err
	}
	return c.Answer(http.StatusOK, viewEnvironment(v, active, h.GatewayURL))
}
