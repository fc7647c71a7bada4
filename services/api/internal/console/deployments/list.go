package deployments

import (
	"cmp"
	"errors"
	"net/url"
	"strconv"

	"waybill.dev/services/api/internal/console"
	"waybill.dev/services/api/internal/families/accounts"
	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/shared/domain"
)

const (
	// few is how many projects a page has, and how many deployments of each.
	few = 10
	// many is how many deployments of one project a page has.
	many = 50
	// maxProjects is how many projects a field of a form offers.
	maxProjects = 100
)

// group is a project with some of its deployments.
type group struct {
	Project     string
	Deployments []deployment
	Total       int
	Problem     *console.Problem // the reason why deployments are missing
	Path        string           // path to the list of all its deployments
}

type listView struct {
	Form       *console.Form
	Projects   []console.Option
	NoProjects *console.Problem // the reason why projects can't be listed
	Types      []console.Option
	One        bool // the deployments of one project are shown
	Filtered   bool
	Groups     []group
	Paging     console.Paging
	NoList     *console.Problem // why there are no deployments at all
	May        bool
	HasProject bool // the page for new projects is available
}

func list(p *console.Page) error {
	query := p.Pick("project", "q", "branchName", "environmentType")
	v := listView{
		Form: console.NewForm(query), Types: console.Choices("any", domain.Production, domain.Preview, domain.Development), May: p.May(domain.ScopeGatewayWrite), HasProject: p.Has(projectsPath),
		Filtered: query.Has("branchName") || query.Has("environmentType") || query.Has("q"),
	}
	names, total, problem := projects(p)
	v.NoProjects = problem
	v.Projects = options(names, query.Get("project"))
	if name := query.Get("project"); name != "" {
		return v.showOne(p, name, query)
	}
	p.CLI("deployments list PROJECT")
	offset, err := strconv.Atoi(p.Query("offset"))
	if err != nil || offset < 0 {
		offset = 0
	}
	shown := names[min(offset, len(names)):]
	shown = shown[:min(few, len(shown))]
	v.Paging = p.Offsets(offset, len(shown), total)
	for i, name := range shown {
		g, err := groupOf(p, name, i == 0, query.Get("q"))
		if known, ok := errors.AsType[*console.Problem](err); ok && known.NoOperation {
			v.NoList = known
			break
		} else if err != nil {
			return err
		}
		if g.Total > 0 || g.Problem != nil || !query.Has("q") {
			v.Groups = append(v.Groups, g)
		}
	}
	if p.Account() == domain.DefaultAccount && offset == 0 {
		if g, _ := groupOf(p, local, false, query.Get("q")); len(g.Deployments) > 0 {
			v.Groups = append(v.Groups, g)
		}
	}
	return p.Show("list.html", "Deployments", v)
}

// groupOf reads the first deployments of a project. A problem with the first project becomes the page's
// problem; a problem with another project is shown in its place. Search selects deployments by their
// name or branch.
func groupOf(p *console.Page, name string, first bool, search string) (group, error) {
	var answer web.Listing[deployment]
	call, to := url.Values{"limit": {strconv.Itoa(few)}}, url.Values{"project": {name}}
	if search != "" {
		call.Set("q", search)
		to.Set("q", search)
	}
	g := group{Project: name, Path: listPath + "?" + to.Encode()}
	if first {
		if err := p.API.Get(at(p, name), call, &answer); err != nil {
			return g, err
		}
	} else {
		g.Problem = p.API.Try(at(p, name), call, &answer)
	}
	g.Deployments, g.Total = answer.Data, answer.Total
	return g, nil
}

// showOne shows the deployments of one project.
func (v *listView) showOne(p *console.Page, name string, query url.Values) error {
	p.CLI(filtered("deployments list "+name, query))
	call := p.Pick("q", "branchName", "environmentType", "offset")
	call.Set("limit", strconv.Itoa(many))
	var answer web.Listing[deployment]
	err := p.API.Get(at(p, name), call, &answer)
	invalid := v.Form.Failed(err)
	if known, ok := errors.AsType[*console.Problem](err); ok && known.NoOperation {
		v.NoList = known
	} else if err != nil && !invalid {
		return err
	}
	v.One = true
	v.Groups = []group{{Project: name, Deployments: answer.Data, Total: answer.Total}}
	v.Paging = p.Offsets(answer.Offset, len(answer.Data), answer.Total)
	if invalid {
		return p.ShowInvalid("list.html", "Deployments", v, v.Form)
	}
	return p.Show("list.html", "Deployments of "+name, v)
}

// filtered adds the filters of the list to a command.
func filtered(command string, query url.Values) string {
	if search := query.Get("q"); search != "" {
		command += " --search " + console.Shell(search)
	}
	if branch := query.Get("branchName"); branch != "" {
		command += " --branch " + console.Shell(branch)
	}
	if kind := query.Get("environmentType"); kind != "" {
		command += " --environment-type " + console.Shell(kind)
	}
	return command
}

// at returns the path of a project's deployments in the API.
func at(p *console.Page, name string) string {
	return console.Path("v1", "accounts", p.Account(), "projects", name, "deployments")
}

// projects returns the names of the account's first maxProjects projects.
func projects(p *console.Page) (names []string, total int, problem *console.Problem) {
	var answer web.Listing[accounts.Project]
	problem = p.API.Try(console.Path("v1", "accounts", p.Account(), "projects"), url.Values{"limit": {strconv.Itoa(maxProjects)}}, &answer)
	for _, one := range answer.Data {
		names = append(names, one.Name)
	}
	return names, len(names), problem
}

// options returns the projects as options of a field, always including the chosen one.
func options(names []string, chosen string) []console.Option {
	list := []console.Option{{Value: "", Label: "all projects"}}
	known := chosen == ""
	for _, name := range names {
		list = append(list, console.Option{Value: name, Label: name})
		known = known || name == chosen
	}
	if !known {
		list = append(list, console.Option{Value: chosen, Label: console.Visible(cmp.Or(chosen, "–"))})
	}
	return list
}
