// Package environments has the console's pages of projects and their branches: the type of each
// branch, its address, and the variables of its routes.
package environments

import (
	"embed"
	"net/url"
	"strconv"

	"waybill.dev/services/api/internal/console"
	"waybill.dev/services/api/internal/families/accounts"
	"waybill.dev/services/api/internal/families/deployments"
	"waybill.dev/shared/domain"
)

//go:embed templates/*.html
var files embed.FS

const (
	listPath     = "/console/environments"
	projectPath  = listPath + "/{projectName}"
	branchPath   = projectPath + "/{branchName}"
	variablePath = branchPath + "/{variableName}"

	projectsPath   = "/console/access/projects"
	deploymentPath = "/console/deployments/{deploymentName}"
	uploadPath     = "/console/new-deployment"
	bucketPath     = "/console/access/buckets/{bucketName}"
)

// Module returns the pages.
func Module() console.Module {
	show, act := console.Shown, console.Acted
	return console.Module{
		Name: "environments", Templates: files,
		Nav: []console.NavEntry{{Label: "Environments", Path: listPath, Icon: "environments", Order: console.OrderEnvironments, Key: "n"}},
		Routes: []console.Route{
			show(listPath, list),
			show(projectPath, showProject), act(projectPath, updateProject),
			show(branchPath, showBranch), act(branchPath, createVariable),
			show(variablePath, editVariable), act(variablePath, updateVariable),
			show(variablePath+"/delete", confirmVariable), act(variablePath+"/delete", deleteVariable),
		},
	}
}

// project is a project as the API shows it.
type project struct{ accounts.Project }

// Path returns the path of the project's page.
func (p project) Path() string { return projectAt(p.Name) }

func projectAt(name string) string { return console.Path("console", "environments", name) }

// Previews returns the path of the page for the variables of all previews.
func (p project) Previews() string {
	return console.Path("console", "environments", p.Name, domain.PreviewBranch)
}

// environment is an environment as the API shows it.
type environment struct{ deployments.Environment }

// Path returns the path of the page for the variables of its branch.
func (e environment) Path() string {
	return console.Path("console", "environments", e.ProjectName, e.BranchName)
}

// Local reports whether the environment is the folder that the process itself serves, with the
// process's own variables.
func (e environment) Local() bool { return e.Name == local }

// local is the name of that environment.
const local = "local"

// links says which pages of other packages are available for links.
type links struct{ Deployment, Bucket, Upload, Projects bool }

func linksOf(p *console.Page) links {
	return links{p.Has(deploymentPath), p.Has(bucketPath), p.Has(uploadPath), p.Has(projectsPath)}
}

// inProject returns a path below a project of the session's account in the API.
func inProject(p *console.Page, name string, more ...string) string {
	return console.Path(append([]string{"v1", "accounts", p.Account(), "projects", name}, more...)...)
}

// ofBranch returns a path below the page's branch in the API.
func ofBranch(p *console.Page, more ...string) string {
	return inProject(p, p.Param("projectName"), append([]string{"branches", p.Param("branchName"), "variables"}, more...)...)
}

// query asks for the environments of a project.
func query(p *console.Page, name string, limit int) url.Values {
	return url.Values{"accountName": {p.Account()}, "projectName": {name}, "limit": {strconv.Itoa(limit)}}
}
