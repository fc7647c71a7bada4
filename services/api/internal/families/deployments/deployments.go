// Package deployments serves the deployments of an account: uploads, builds, and the routes of this
// process's own folder as the deployment local. The operations only store their requests; gateways make
// the builds and serve them.
package deployments

import (
	"context"
	"net/http"

	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/input"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/auditlog"
	"waybill.dev/shared/store/deployments"
)

// Path is the path of a deployment; Root is the path of all deployments.
const (
	Root = "/v1/deployments"
	Path = Root + "/{deploymentName}"

	sourcesPath = Root + "/sources"
	// uploadsPath is not below Root, so that no reader mistakes it for the path of a deployment.
	uploadsPath = "/v1/deployment-uploads"
	projectPath = web.AccountPath + "/projects/{projectName}"
)

// Sources keeps archives.
type Sources interface {
	CreateSource(ctx context.Context, t deployments.Target) (domain.DeploymentSource, error)
	GetSource(ctx context.Context, id string) (domain.DeploymentSource, error)
	PutArchive(ctx context.Context, id string, archive []byte, format domain.ArchiveFormat) (domain.Build, error)
	SourceBytes(ctx context.Context, account string) (kept, limit int64, err error)
	Upload(ctx context.Context, t deployments.Target, archive []byte, format domain.ArchiveFormat) (domain.Build, error)
}

// Deployments keeps deployments.
type Deployments interface {
	ListDeployments(ctx context.Context, f deployments.Filter) ([]deployments.DeploymentWithBuilds, int, error)
	GetDeployment(ctx context.Context, account, name string) (deployments.DeploymentWithBuilds, error)
	DeleteDeployment(ctx context.Context, account, name string) error
	NoteReload(ctx context.Context, account, deployment string) error
}

// Builds keeps builds.
type Builds interface {
	GetStatus(ctx context.Context, account, project, statusID string) (deployments.Status, error)
	ListBuilds(ctx context.Context, account, deployment string, page store.Page) ([]domain.Build, int, error)
	BuildLog(ctx context.Context, account, deployment, id string) ([]domain.BuildLine, error)
	Redeploy(ctx context.Context, account, deployment, buildID string) (domain.Build, error)
}

// Domains keeps custom domains.
type Domains interface {
	ListCustomDomains(ctx context.Context, account string, page store.Page) ([]domain.CustomDomain, int, error)
}

// Options of the routes. Sources, Deployments, Builds, Domains and Changed are required.
type Options struct {
	Sources     Sources
	Deployments Deployments
	Builds      Builds
	Domains     Domains
	// Signing are the keys for upload URLs: the first one signs, and all of them are accepted.
	Signing [][]byte
	// Changed notifies gateways of a new build, or of another change in what they serve.
	Changed func()
	// GatewayURL is the address of the gateways, without the name of a deployment, such as
	// https://gateway.example.com:8443; empty: not known.
	GatewayURL string
	// LocalURL returns the local address of a deployment on this machine, which needs no DNS; if it
	// returns an empty text, or is nil, there is none.
	LocalURL func(name string) string
	// Local are the routes of this process's own folder; nil: it has none.
	Local *Local
}

// Routes returns the operations.
func Routes(options Options) []web.Route {
	h := &handlers{Options: options, uploads: newUploads()}
	return append(h.environments(), []web.Route{
		{
			Method: http.MethodPost, Path: sourcesPath, Operation: "createDeploymentSource",
			Scope: domain.ScopeGatewayWrite, Action: auditlog.ActionUploadSource, Long: true, Handle: h.createSource,
		},
		{
			Method: http.MethodPut, Path: uploadsPath + "/{sourceId}", Operation: "uploadDeploymentSource",
			Action: auditlog.ActionUploadArchive, Long: true, Bytes: true, Handle: h.putArchive,
		},
		{
			Method: http.MethodGet, Path: projectPath + "/deployment-status/{statusId}", Operation: "getDeploymentStatus",
			Scope: domain.ScopeGatewayRead, Handle: h.status,
		},
		{
			Method: http.MethodGet, Path: projectPath + "/deployments", Operation: "listDeployments",
			Scope: domain.ScopeGatewayRead, Handle: h.list,
		},
		{
			Method: http.MethodGet, Path: Path, Operation: "getDeployment",
			Scope: domain.ScopeGatewayRead, Handle: h.get,
		},
		{
			Method: http.MethodDelete, Path: Path, Operation: "deleteDeployment",
			Scope: domain.ScopeGatewayWrite, Action: auditlog.ActionDeleteDeployment, Handle: h.delete,
		},
		{
			Method: http.MethodPost, Path: Path + "/deploy", Operation: "redeploy",
			Scope: domain.ScopeGatewayWrite, Action: auditlog.ActionRedeploy, Handle: h.redeploy,
		},
		{
			Method: http.MethodGet, Path: Path + "/builds", Operation: "listBuilds",
			Scope: domain.ScopeGatewayRead, Handle: h.builds,
		},
		{
			Method: http.MethodGet, Path: Path + "/builds/{buildId}/logs", Operation: "getBuildLogs",
			Scope: domain.ScopeGatewayRead, Handle: h.logs,
		},
	}...)
}

type handlers struct {
	Options

	uploads *uploads
}

// list lists a project's deployments. The deployment local comes first, in the project local.
func (h *handlers) list(c *web.Call) error {
	account, page, q := c.Account(), c.Page(), c.Query()
	filter := deployments.Filter{Account: account, Project: c.Param("projectName"), Page: page}
	filter.Branch, _ = q.Text("branchName")
	filter.EnvironmentType = input.OneOf(q, "environmentType", []domain.EnvironmentType{domain.Production, domain.Preview, domain.Development})
	filter.Search = q.Within("q", web.MaxSearch)
	if err := c.Check(); err != nil {
		return err
	}
	views, total, err := h.find(c, filter)
	if err != nil {
		return err
	}
	return web.AnswerList(c, page, total, views, func(v Deployment) Deployment { return v })
}

// find returns a page of deployments, and their total number.
func (h *handlers) find(c *web.Call, filter deployments.Filter) ([]Deployment, int, error) {
	local := h.Local.in(filter)
	shown := local[min(filter.Offset, len(local)):]
	filter.Limit -= len(shown)
	filter.Offset -= len(local) - len(shown)
	list, total, err := h.Deployments.ListDeployments(c.Context(), filter)
	if err != nil && !h.Local.onlyIn(filter, err) {
		return nil, 0, missing(err, "project")
	}
	views := make([]Deployment, 0, len(list)+len(shown))
	for _, state := range shown {
		views = append(views, h.localView(c, state))
	}
	for _, d := range list {
		views = append(views, h.view(d))
	}
	return views, total + len(local), nil
}

func (h *handlers) get(c *web.Call) error {
	v, err := h.one(c, c.Param("deploymentName"))
	if err != nil {
		return err
	}
	return c.Answer(http.StatusOK, v)
}

// one returns a deployment for a request that has no parameters but its name.
func (h *handlers) one(c *web.Call, name string) (Deployment, error) {
	if err := c.Check(); err != nil {
		return Deployment{}, err
	}
	if h.Local.is(c.Principal.Account, name) {
		return h.localView(c, h.Local.State()), nil
	}
	d, err := h.Deployments.GetDeployment(c.Context(), c.Principal.Account, name)
	if err != nil {
		return Deployment{}, err
	}
	v := h.view(d)
	v.LocalURL = h.localURL(v.Name)
	kept, limit, err := h.Sources.SourceBytes(c.Context(), c.Principal.Account)
	v.Archives = &Archives{kept, limit}
	return v, err
}

func (h *handlers) delete(c *web.Call) error {
	name := c.Param("deploymentName")
	if err := c.Check(); err != nil {
		return err
	}
	if h.Local.is(c.Principal.Account, name) {
		return web.Conflict("The deployment local is the folder of route files of this process. It can't be deleted.")
	}
	if err := h.Deployments.DeleteDeployment(c.Context(), c.Principal.Account, name); err != nil {
		return err
	}
	h.Changed()
	return c.NoContent()
}

// redeploy makes a new build. Local is read again instead, and at once.
func (h *handlers) redeploy(c *web.Call) error {
	name := c.Param("deploymentName")
	buildID, _ := c.OptionalForm().Text("buildId", 1, maxID)
	if err := c.Check(); err != nil {
		return err
	}
	account := c.Principal.Account
	if h.Local.is(account, name) {
		return h.reload(c, buildID)
	}
	build, err := h.Builds.Redeploy(c.Context(), account, name, buildID)
	if err != nil {
		if buildID != "" && isMissing(err) {
			if _, found := h.Deployments.GetDeployment(c.Context(), account, name); found == nil {
				return missing(err, "build")
			}
		}
		return limited(err)
	}
	h.Changed()
	return c.Answer(http.StatusAccepted, Redeployed{Status: enqueued, StatusID: &build.StatusID, BuildID: &build.ID})
}
