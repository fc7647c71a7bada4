package domains

import (
	"time"

	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/shared/domain"
)

// The statuses of a custom domain.
const (
	statusPending = "pending"
	statusActive  = "active"
)

// resultView answers a change.
type resultView struct {
	DeploymentName *string `json:"deploymentName"`
	Hostname       string  `json:"hostname"`
	Stage          string  `json:"stage"`
	stateView
}

// stateView is the state of a domain, and what is missing.
type stateView struct {
	OwnershipVerification Record          `json:"ownershipVerification"`
	CNAME                 *string         `json:"cname"`
	Status                string          `json:"status"`
	Errors                []string        `json:"errors"`
	Certificate           certificateView `json:"certificate"`
	CheckedOn             *string         `json:"checkedOn"`
	NextCheckOn           *string         `json:"nextCheckOn"`
	ProvenOn              *string         `json:"provenOn"`
	NoticeUntil           *string         `json:"noticeUntil"`
	LostOn                *string         `json:"lostOn"`
	CreatedOn             *string         `json:"createdOn"`
	UpdatedOn             *string         `json:"updatedOn"`
}

// Record is a record in DNS.
type Record struct {
	Name  string `json:"name"`
	Type  string `json:"type"`
	Value string `json:"value"`
}

type certificateView struct {
	Status  string  `json:"status"`
	Source  *string `json:"source"`
	ValidTo *string `json:"validTo"`
	Error   *string `json:"error"`
}

func (h *handlers) state(d *domain.CustomDomain) stateView {
	v := stateView{
		OwnershipVerification: Record{domain.DomainRecord + d.Hostname, "TXT", d.Token},
		CNAME:                 h.Names.target(), Status: statusPending, Errors: []string{},
		Certificate: certificateView{
			Status: d.Certificate.Status(time.Now()), Source: web.Optional(string(d.Certificate.Source)),
			ValidTo: web.Stamp(d.Certificate.ValidTo), Error: web.Optional(d.Certificate.Error),
		},
		CheckedOn: web.Stamp(d.CheckedOn), NextCheckOn: web.Stamp(d.NextCheckOn),
		ProvenOn: web.Stamp(d.ProvenOn), NoticeUntil: web.Stamp(d.NoticeUntil()), LostOn: web.Stamp(d.LostOn),
		CreatedOn: web.Stamp(d.CreatedOn), UpdatedOn: web.Stamp(d.UpdatedOn),
	}
	if d.Active() {
		v.Status = statusActive
	}
	if len(d.Answers) > 0 {
		v.Errors = d.Answers
	}
	return v
}

// view returns the answer to a change.
func (h *handlers) view(d domain.CustomDomain) resultView {
	return resultView{web.Optional(d.Deployment), d.Hostname, stageAPI, h.state(&d)}
}

// Domain is a domain in a list.
type Domain struct {
	ID          string       `json:"id"`
	AccountName string       `json:"accountName"`
	ProjectName string       `json:"projectName"`
	Deployments []Deployment `json:"deployments"`
	Hostname    string       `json:"hostname"`
	Provider    string       `json:"provider"`
	stateView
}

// Deployment is the deployment that a domain leads to.
type Deployment struct {
	DeploymentName  *string `json:"deploymentName"`
	Branch          *string `json:"branch"`
	EnvironmentType *string `json:"environmentType"`
	IsDefault       bool    `json:"isDefault"`
	Stage           string  `json:"stage"`
	CNAME           *string `json:"cname"`
}

func (h *handlers) item(d domain.CustomDomain) Domain {
	v := Domain{
		ID: d.ID, AccountName: d.Account, ProjectName: d.Project, Hostname: d.Hostname, Provider: "custom",
		Deployments: []Deployment{{
			DeploymentName: web.Optional(d.Deployment), Branch: web.Optional(d.Branch), IsDefault: d.IsDefault, Stage: stageAPI, CNAME: h.Names.target(),
		}},
		stateView: h.state(&d),
	}
	v.Deployments[0].EnvironmentType = web.Optional(environment(d.EnvironmentType))
	return v
}

// environment returns the type of an environment in the form of domain lists.
func environment(t domain.EnvironmentType) string {
	switch t {
	case domain.Production:
		return "PRODUCTION"
	case domain.Preview:
		return "PREVIEW"
	case domain.Development:
		return "WORKING_COPY"
	}
	return ""
}
