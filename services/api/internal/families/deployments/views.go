package deployments

import (
	"net"
	"net/url"
	"strings"

	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/store/deployments"
)

// enqueued is the message of the answer to a redeployment.
const enqueued = "request enqueued"

// Redeployed is the answer to a redeployment.
type Redeployed struct {
	Status   string  `json:"status"`
	StatusID *string `json:"statusId"`
	BuildID  *string `json:"buildId"`
}

// Uploaded is the answer to an upload of an archive.
type Uploaded struct {
	StatusID       string `json:"statusId"`
	BuildID        string `json:"buildId"`
	DeploymentName string `json:"deploymentName"`
	URL            string `json:"url"`
}

// Deployment is a deployment as callers see it.
type Deployment struct {
	Name               string                 `json:"name"`
	URL                string                 `json:"url"`
	LocalURL           string                 `json:"localUrl,omitempty"` // not in lists
	Label              string                 `json:"label"`
	URLParameter       string                 `json:"urlParameter"`
	CreatedOn          *string                `json:"createdOn"`
	UpdatedOn          *string                `json:"updatedOn"`
	LoggingID          string                 `json:"loggingId"`
	AccountName        string                 `json:"accountName"`
	ProjectName        string                 `json:"projectName"`
	State              domain.DeploymentState `json:"state"`
	Message            string                 `json:"message"`
	BranchName         string                 `json:"branchName"`
	EnvironmentType    domain.EnvironmentType `json:"environmentType"`
	Build              *Build                 `json:"build"`
	LastBuild          *Build                 `json:"lastBuild"`
	VariablesChangedOn *string                `json:"variablesChangedOn"`
	// Archives is the use of the account's archive space; lists don't have it.
	Archives *Archives `json:"archives,omitzero"`
}

// Archives is how many bytes of archives an account keeps, and may keep.
type Archives struct {
	Bytes int64 `json:"bytes"`
	Limit int64 `json:"limit"`
}

func (h *handlers) view(d deployments.DeploymentWithBuilds) Deployment {
	return Deployment{
		Name: d.Name, URL: h.url(d.Name), Label: d.Branch, URLParameter: d.Name, LoggingID: d.Name,
		CreatedOn: web.Stamp(d.CreatedOn), UpdatedOn: web.Stamp(d.UpdatedOn),
		AccountName: d.Account, ProjectName: d.Project, BranchName: d.Branch, EnvironmentType: d.EnvironmentType,
		State: d.State, Message: d.Message, Build: optionalBuild(d.Build), LastBuild: optionalBuild(d.LastBuild),
		VariablesChangedOn: web.Stamp(d.VariablesChangedOn),
	}
}

// Build is a build as callers see it.
type Build struct {
	ID              string                 `json:"id"`
	StatusID        string                 `json:"statusId"`
	Number          int64                  `json:"number"`
	Status          domain.BuildStatus     `json:"status"`
	EnvironmentType domain.EnvironmentType `json:"environmentType"`
	Routes          int                    `json:"routes"`
	CreatedOn       *string                `json:"createdOn"`
	FinishedOn      *string                `json:"finishedOn"`
	ActivatedOn     *string                `json:"activatedOn"`
	CreatedBy       string                 `json:"createdBy"`
}

func viewBuild(b domain.Build) Build {
	return Build{
		ID: b.ID, StatusID: b.StatusID, Number: b.Number, Status: b.Status, EnvironmentType: b.EnvironmentType, Routes: b.Routes,
		CreatedOn: web.Stamp(b.CreatedOn), FinishedOn: web.Stamp(b.FinishedOn), ActivatedOn: web.Stamp(b.ActivatedOn), CreatedBy: b.CreatedBy,
	}
}

func optionalBuild(b *domain.Build) *Build {
	if b == nil {
		return nil
	}
	v := viewBuild(*b)
	return &v
}

// url returns the address of a deployment; empty: not known here.
func (h *handlers) url(name string) string {
	scheme, host, ok := strings.Cut(h.GatewayURL, "://")
	if !ok {
		return ""
	}
	return scheme + "://" + name + "." + host
}

// localURL returns the local address of a deployment on this machine; empty: none.
func (h *handlers) localURL(name string) string {
	if h.LocalURL == nil {
		return ""
	}
	return h.LocalURL(name)
}

// domainURL returns the address of a custom domain: with the scheme and port of the gateways,
// otherwise with HTTPS.
func domainURL(gateway, hostname string) string {
	u, err := url.Parse(gateway)
	if err != nil || u.Host == "" {
		return "https://" + hostname
	}
	if port := u.Port(); port != "" {
		hostname = net.JoinHostPort(hostname, port)
	}
	return u.Scheme + "://" + hostname
}
