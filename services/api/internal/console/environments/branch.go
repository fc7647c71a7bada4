package environments

import (
	"cmp"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"waybill.dev/services/api/internal/console"
	"waybill.dev/services/api/internal/families/deployments"
	"waybill.dev/services/api/internal/families/variables"
	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/problem"
)

// place is a branch of a project.
type place struct{ Project, Branch string }

func at(p *console.Page) place { return place{p.Param("projectName"), p.Param("branchName")} }

// Path returns the path of the branch's page, or of a page below it.
func (l place) Path(more ...string) string {
	return console.Path(append([]string{"console", "environments", l.Project, l.Branch}, more...)...)
}

// Above returns the path of the project's page.
func (l place) Above() string { return projectAt(l.Project) }

// Previews reports whether the branch stands for all preview branches.
func (l place) Previews() bool { return l.Branch == domain.PreviewBranch }

// Title returns the name of the branch on pages.
func (l place) Title() string {
	if l.Previews() {
		return "All previews"
	}
	return l.Branch
}

type branchView struct {
	Place     place
	Links     links
	Variables []variables.Variable
	Shared    []variables.Variable // variables of all previews that this branch does not override
	Form      *console.Form
	May       bool
	Full      bool
	Type      domain.EnvironmentType // empty: there is no environment yet
	Name      string                 // name of the deployment; empty: there is none
	Changed   *string                // when variables changed after the active build; nil: they did not
	Commands  string
}

func showBranch(p *console.Page) error { return branch(p, console.NewForm(url.Values{})) }

// branch shows the variables of a branch, with the form of a new one.
func branch(p *console.Page, form *console.Form) error {
	v := branchView{Place: at(p), Links: linksOf(p), Form: form, May: p.May(domain.ScopeGatewayWrite)}
	var answer web.Listing[variables.Variable]
	limit := url.Values{"limit": {strconv.Itoa(domain.MaxVariables)}}
	if form.Problem != nil {
		_ = p.API.Try(ofBranch(p), limit, &answer)
	} else if err := p.API.Get(ofBranch(p), limit, &answer); err != nil {
		return err
	}
	words := console.Shell(v.Place.Project) + " " + console.Shell(v.Place.Branch)
	p.CLI("variables list " + words)
	v.Commands = "waybill variables create " + words + " NAME --value VALUE"
	v.Variables = answer.Data
	v.Full = len(v.Variables) >= domain.MaxVariables
	v.deployed(p)
	if v.Type == domain.Preview {
		v.Shared = shared(p, v)
	}
	if form.Problem != nil {
		return p.ShowInvalid("branch.html", "Variables of "+v.Place.Title(), v, form)
	}
	return p.Show("branch.html", "Variables of "+v.Place.Title(), v)
}

// deployed reads the deployment of the branch.
func (v *branchView) deployed(p *console.Page) {
	if v.Place.Previews() {
		return
	}
	var d deployments.Deployment
	name := domain.DeploymentName(p.Account(), v.Place.Project, v.Place.Branch)
	if p.API.Try(console.Path("v1", "deployments", name), nil, &d) != nil {
		var one project
		if p.API.Try(inProject(p, v.Place.Project), nil, &one) == nil {
			v.Type = domain.EnvironmentTypeOf(v.Place.Branch, cmp.Or(one.ProductionBranch, domain.DefaultProductionBranch))
		}
		return
	}
	v.Name, v.Type, v.Changed = d.Name, d.EnvironmentType, d.VariablesChangedOn
}

// shared returns the variables of all previews that apply to a preview.
func shared(p *console.Page, v branchView) []variables.Variable {
	own := map[string]bool{}
	for _, one := range v.Variables {
		own[one.Name] = true
	}
	var answer web.Listing[variables.Variable]
	_ = p.API.Try(inProject(p, v.Place.Project, "branches", domain.PreviewBranch, "variables"), url.Values{"limit": {strconv.Itoa(domain.MaxVariables)}}, &answer)
	var list []variables.Variable
	for _, one := range answer.Data {
		if !own[one.Name] {
			list = append(list, one)
		}
	}
	return list
}

func createVariable(p *console.Page) error {
	values, err := p.Form()
	if err != nil {
		return err
	}
	body := struct {
		Name     string `json:"name"`
		Value    string `json:"value"`
		IsSecret bool   `json:"isSecret"`
	}{values.Get("name"), lines(values.Get("value")), values.Get("isSecret") == "true"}
	form := console.NewForm(values)
	if err := p.API.Send(http.MethodPost, ofBranch(p), body, nil); form.Failed(err) {
		forget(values)
		return branch(p, form)
	} else if err != nil {
		return err
	}
	return p.Done(body.Name+" is set. It holds with the next build.", at(p).Path())
}

// forget removes the secret value from a form that is shown again.
func forget(values url.Values) {
	if values.Get("isSecret") == "true" {
		values.Set("value", "")
	}
}

// lines restores the line ends that were typed: a form sends others.
func lines(text string) string { return strings.ReplaceAll(text, "\r\n", "\n") }

type variableView struct {
	Place    place
	Variable variables.Variable
	Form     *console.Form
}

// find returns the variable that the page's path names: the API has no operation for one alone.
func find(p *console.Page) (variables.Variable, error) {
	var answer web.Listing[variables.Variable]
	if err := p.API.Get(ofBranch(p), url.Values{"limit": {strconv.Itoa(domain.MaxVariables)}}, &answer); err != nil {
		return variables.Variable{}, err
	}
	for _, one := range answer.Data {
		if one.Name == p.Param("variableName") {
			return one, nil
		}
	}
	return variables.Variable{}, problem.New(problem.NotFound, "The branch has no such variable.")
}

func editVariable(p *console.Page) error {
	one, err := find(p)
	if err != nil {
		return err
	}
	l := at(p)
	p.CLI("variables update " + console.Shell(l.Project) + " " + console.Shell(l.Branch) + " " + console.Shell(p.Param("variableName")) + " --value VALUE")
	return p.Show("variable.html", "Variable "+p.Param("variableName"), variableView{l, one, console.NewForm(url.Values{"value": {one.Value}})})
}

func updateVariable(p *console.Page) error {
	values, err := p.Form()
	if err != nil {
		return err
	}
	l, name := at(p), p.Param("variableName")
	form := console.NewForm(values)
	if err := p.API.Send(http.MethodPatch, ofBranch(p, name), map[string]string{"value": lines(values.Get("value"))}, nil); form.Failed(err) {
		secret := values.Get("isSecret") == "true"
		forget(values)
		return p.ShowInvalid("variable.html", "Variable "+name, variableView{l, variables.Variable{Name: name, IsSecret: secret}, form}, form)
	} else if err != nil {
		return err
	}
	return p.Done(name+" is changed. It holds with the next build.", l.Path())
}

func confirmVariable(p *console.Page) error {
	one, err := find(p)
	if err != nil {
		return err
	}
	l, name := at(p), p.Param("variableName")
	p.CLI("variables delete " + console.Shell(l.Project) + " " + console.Shell(l.Branch) + " " + console.Shell(name))
	effect := "What is served keeps it until the next build, which fails when a route still names it."
	if one.IsSecret {
		effect += " Its value can't be shown again."
	}
	return p.ShowConfirm(console.Confirm{
		Title: "Delete " + name + "?", Effect: effect, Facts: []console.Fact{{Name: "Project", Value: l.Project}, {Name: "Branch", Value: l.Title()}},
		Verb: "Delete the variable", Danger: true, Action: l.Path(name, "delete"), Back: l.Path(),
	})
}

func deleteVariable(p *console.Page) error {
	name := p.Param("variableName")
	if err := p.API.Send(http.MethodDelete, ofBranch(p, name), nil, nil); err != nil {
		return err
	}
	return p.Done(name+" is deleted. What is served keeps it until the next build.", at(p).Path())
}
