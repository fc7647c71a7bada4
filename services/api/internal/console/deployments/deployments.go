// Package deployments has the console's pages of deployments: deployments with their builds, the
// upload of a new build, traffic and requests.
package deployments

import (
	"cmp"
	"embed"
	"fmt"
	"strconv"
	"strings"
	"time"

	"waybill.dev/services/api/internal/console"
	"waybill.dev/services/api/internal/families/deployments"
	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/shared/domain"
)

//go:embed templates/*.html
var files embed.FS

const (
	listPath    = "/console/deployments"
	newPath     = "/console/new-deployment"
	onePath     = listPath + "/{deploymentName}"
	buildPath   = onePath + "/builds/{buildId}"
	trafficPath = onePath + "/traffic"
	logPath     = onePath + "/requests"
	requestPath = logPath + "/{requestId}"

	projectsPath     = "/console/access/projects"
	environmentsPath = "/console/environments"
	branchPath       = environmentsPath + "/{projectName}/{branchName}"
)

// Module returns the pages.
func Module() console.Module {
	show, act := console.Shown, console.Acted
	return console.Module{
		Name: "deployments", Templates: files,
		Find: find,
		Nav:  []console.NavEntry{{Label: "Deployments", Path: listPath, Icon: "deployments", Order: console.OrderDeployments, Key: "o"}},
		Routes: []console.Route{
			show(listPath, list),
			show(newPath, compose), act(newPath, upload),
			show(onePath, showBuilds),
			show(onePath+"/variables", showVariables),
			show(trafficPath, showTraffic),
			show(logPath, listRequests), show(requestPath, showRequest),
			show(buildPath, showBuild),
			show(buildPath+"/deploy", confirmBuild), act(buildPath+"/deploy", deployBuild),
			show(onePath+"/deploy", confirmDeploy), act(onePath+"/deploy", deploy),
			show(onePath+"/delete", confirmDelete), act(onePath+"/delete", remove),
		},
	}
}

// local is the deployment of the folder that the process itself serves.
const local = "local"

// deployment is a deployment as the API shows it.
type deployment struct{ deployments.Deployment }

// Kept says how much the account's archives take; empty: not known.
func (d deployment) Kept() string {
	if d.Archives == nil {
		return ""
	}
	return fmt.Sprintf("%.1f of %.0f MiB that the account may keep", float64(d.Archives.Bytes)/(1<<20), float64(d.Archives.Limit)/(1<<20))
}

// build is a build as the API shows it.
type build struct{ deployments.Build }

// Word returns one word for the state of the deployment.
func (d deployment) Word() string {
	switch d.State {
	case domain.DeploymentBuilding:
		return "building"
	case domain.DeploymentStarted:
		return "serving"
	case domain.DeploymentErrored:
		return "failed"
	}
	return strings.ToLower(string(d.State))
}

// Local reports whether the deployment is the folder that the process itself serves.
func (d deployment) Local() bool { return d.Name == local }

// Failed reports whether a build failed after the active one.
func (d deployment) Failed() bool {
	return d.LastBuild != nil && d.LastBuild.Status == domain.BuildError && (d.Build == nil || d.LastBuild.Number > d.Build.Number)
}

// Host returns the address without the scheme.
func (d deployment) Host() string {
	_, rest, ok := strings.Cut(d.URL, "://")
	if !ok {
		rest = d.URL
	}
	return strings.TrimSuffix(rest, "/")
}

// Path returns the path of the deployment's page, or of a page below it.
func (d deployment) Path(more ...string) string { return pathOf(d.Name, more...) }

func pathOf(name string, more ...string) string {
	return console.Path(append([]string{"console", "deployments", name}, more...)...)
}

// BuildPath returns the path of the page of a build.
func (d deployment) BuildPath(id string) string { return d.Path("builds", id) }

// Branch returns the path of the page for the variables of the branch.
func (d deployment) Branch() string {
	return console.Path("console", "environments", d.ProjectName, d.BranchName)
}

// Project returns the path of the list of the project's deployments.
func (d deployment) Project() string { return listPath + "?project=" + d.ProjectName }

// Word returns one word for the result or the state of the build.
func (b build) Word() string { return word(b.Status) }

func word(status domain.BuildStatus) string {
	switch status {
	case domain.BuildQueued:
		return "queued"
	case domain.BuildBuilding:
		return "building"
	case domain.BuildSuccess:
		return "succeeded"
	case domain.BuildError:
		return "failed"
	}
	return strings.ToLower(string(status))
}

// Open reports whether the build is not finished.
func (b build) Open() bool {
	return b.Status == domain.BuildQueued || b.Status == domain.BuildBuilding
}

// Took returns how long the build took from the upload to its end; empty: it is not finished.
func (b build) Took() string { return took(b.CreatedOn, b.FinishedOn) }

func took(from, to *string) string {
	if from == nil || to == nil {
		return ""
	}
	d := max(0, web.Time(to).Sub(web.Time(from)))
	switch {
	case d < time.Second:
		return strconv.FormatInt(d.Milliseconds(), 10) + "\u202fms"
	case d < time.Minute:
		return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + "\u202fs"
	}
	return strconv.Itoa(int(d/time.Minute)) + "\u202fmin"
}

// api returns the API's path of a deployment, or a path below it.
func api(name string, more ...string) string {
	return console.Path(append([]string{"v1", "deployments", name}, more...)...)
}

// read reads the deployment that the page's path names.
func read(p *console.Page) (deployment, error) {
	var d deployment
	err := p.API.Get(api(p.Param("deploymentName")), nil, &d)
	d.Name = cmp.Or(d.Name, p.Param("deploymentName"))
	return d, err
}

// head is the data at the top of all pages of a deployment.
type head struct {
	Deployment deployment
	Tabs       []console.Tab
	May        bool // the session may change it
	HasBranch  bool // the page of the branch's variables is available
}

func headOf(p *console.Page, d deployment, current string) head {
	h := head{Deployment: d, May: p.May(domain.ScopeGatewayWrite), HasBranch: p.Has(branchPath) && !d.Local()}
	for _, t := range []struct{ label, part string }{{"Builds", ""}, {"Traffic", "traffic"}, {"Requests", "requests"}, {"Variables", "variables"}} {
		if t.part == "variables" && d.Local() {
			continue // routes of the process itself
		}
		path := d.Path()
		if t.part != "" {
			path = d.Path(t.part)
		}
		h.Tabs = append(h.Tabs, console.Tab{Label: t.label, Path: path, Current: t.part == current})
	}
	return h
}

func title(d deployment) string { return d.ProjectName + " · " + d.BranchName }
