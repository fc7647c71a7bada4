// Package environments has the console's pages of projects and their branches: what each branch
// is, where it is reached, and the variables that its routes take.
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

// Path is where the page of a project is.
func (p project) Path() string { return projectAt(p.Name) }

func projectAt(name string) string { return console.Path("console", "environments", name) }

// Previews is where the variables of all previews are.
func (p project) Previews() string {
	return console.Path("console", "environments", p.Name, domain.PreviewBranch)
}

// environment is an environment as the API shows it.
type environment struct{ deployments.Environment }

// Path is where the variables of its branch are.
func (e environment) Path() string {
	return console.Path("console", "environments", e.ProjectName, e.BranchName)
}

// Local reports whether it is the folder that the process itself serves, whose variables are the
// process's own.
func (e environment) Local() bool { return e.Name == local }

// local is the name of that environment.
const local = "local"

// links are the pages of others that these may lead to.
type links struct{ Deployment, Bucket, Upload, Projects bool }

func linksOf(p *console.Page) links {
	return links{p.Has(deploymentPath), p.Has(bucketPath), p.Has(uploadPath), p.Has(projectsPath)}
}

// inProject is a path of a project of the session's account in the API.
func inProject(p *console.Page, name string, more ...string) string {
	return console.Path(append([]string{"v1", "accounts", p.Account(), "projects", name}, more...)...)
}

// ofBranch is a path of the page's branch in the API.
func ofBranch(p *console.Page, more ...string) string {
	return inProject(p, p.Param("projectName"), append([]string{"branches", p.Param("branchName"), "variables"}, more...)...)
}

// query asks for the environments of a project.
func query(p *console.Page, name string, limit int) url.Values {
	return url.Values{"accountName": {p.Account()}, "projectName": {name}, "limit": {strconv.Itoa(limit)}}
}
