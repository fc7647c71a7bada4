package deployments

import (
	"bytes"
	"cmp"
	"errors"
	"net/http"
	"net/url"

	"waybill.dev/services/api/internal/console"
	"waybill.dev/services/api/internal/families/deployments"
	"waybill.dev/shared/domain"
)

// maxArchive is the maximum size of an archive, in bytes.
const maxArchive = 8 << 20

type uploadView struct {
	Form       *console.Form
	Projects   []console.Option
	NoProjects *console.Problem
	HasProject bool
	Command    string
}

// compose shows the form of an upload.
func compose(p *console.Page) error {
	query := url.Values{"projectName": {p.Query("project")}, "branchName": {p.Query("branch")}}
	v := newUpload(p, console.NewForm(query))
	if v.NoProjects == nil && query.Get("branchName") == "" {
		query.Set("branchName", domain.DefaultProductionBranch)
	}
	p.CLI(v.Command)
	return p.Show("upload.html", "Upload a build", v)
}

func newUpload(p *console.Page, form *console.Form) uploadView {
	v := uploadView{Form: form, HasProject: p.Has(projectsPath)}
	names, _, problem := projects(p)
	v.NoProjects = problem
	chosen := form.Values.Get("projectName")
	if v.Projects = options(names, chosen)[1:]; len(v.Projects) > 0 && chosen == "" {
		chosen = v.Projects[0].Value
	}
	chosen = cmp.Or(chosen, "PROJECT")
	v.Command = "deploy config --project " + console.Shell(chosen)
	if branch := form.Values.Get("branchName"); branch != "" {
		v.Command += " --branch " + console.Shell(branch)
	}
	return v
}

// upload hands an archive to the API, in one step.
func upload(p *console.Page) error {
	values, archive, err := p.Upload(domain.ScopeGatewayWrite, "archive", maxArchive)
	form := console.NewForm(values)
	switch {
	case errors.Is(err, console.ErrTooLarge):
		form.Problem = fault413("The archive may have at most 8 MiB. Leave out what is no route file.")
	case err != nil:
		return err
	case len(archive) == 0:
		form.Refuse("archive", "Choose a .zip or .tar.gz of the folder.")
	default:
		kind := "application/zip"
		if bytes.HasPrefix(archive, []byte{0x1f, 0x8b}) {
			kind = "application/gzip"
		}
		query := url.Values{"accountName": {p.Account()}, "projectName": {values.Get("projectName")}, "branchName": {values.Get("branchName")}}
		var m deployments.Uploaded
		err := p.API.SendFile("/v1/deployments/sources", query, kind, archive, &m)
		if err == nil {
			return goOn(p, "The archive is here. It is being built.", m.DeploymentName, m.BuildID)
		}
		if !form.Failed(err) {
			return err
		}
	}
	return p.ShowInvalid("upload.html", "Upload a build", newUpload(p, form), form)
}

func fault413(detail string) *console.Problem {
	return &console.Problem{
		Status: http.StatusRequestEntityTooLarge, Title: "Too large", Code: "TOO_LARGE", Detail: detail,
		Faults: []console.Fault{{Pointer: "/archive", Detail: detail}},
	}
}
