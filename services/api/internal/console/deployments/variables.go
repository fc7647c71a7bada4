package deployments

import (
	"net/url"
	"strconv"

	"waybill.dev/services/api/internal/console"
	"waybill.dev/services/api/internal/families/variables"
	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/shared/domain"
)

// variable is a variable of a branch, never with the value of a secret.
type variable struct {
	variables.Variable

	Shared bool `json:"-"` // a variable of all previews
}

type variablesView struct {
	head

	Variables   []variable
	NoVariables *console.Problem
	Preview     bool
}

// showVariables shows the variables for $env in the routes. For a preview, they include those of
// all previews.
func showVariables(p *console.Page) error {
	d, err := read(p)
	if err != nil {
		return err
	}
	v := variablesView{head: headOf(p, d, "variables"), Preview: d.EnvironmentType == domain.Preview}
	p.CLI("variables list " + console.Shell(d.ProjectName) + " " + console.Shell(d.BranchName))
	own, problem := variablesOf(p, d, d.BranchName)
	v.NoVariables = problem
	known := map[string]bool{}
	for _, one := range own {
		known[one.Name] = true
		v.Variables = append(v.Variables, one)
	}
	if v.Preview && problem == nil {
		all, _ := variablesOf(p, d, domain.PreviewBranch)
		for _, one := range all {
			if one.Shared = true; !known[one.Name] {
				v.Variables = append(v.Variables, one)
			}
		}
	}
	return p.Show("variables.html", "Variables of "+title(d), v)
}

func variablesOf(p *console.Page, d deployment, branch string) ([]variable, *console.Problem) {
	var answer web.Listing[variable]
	path := console.Path("v1", "accounts", p.Account(), "projects", d.ProjectName, "branches", branch, "variables")
	problem := p.API.Try(path, url.Values{"limit": {strconv.Itoa(domain.MaxVariables)}}, &answer)
	return answer.Data, problem
}
