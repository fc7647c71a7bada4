package environments

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"
	"strconv"

	"waybill.dev/services/api/internal/console"
	"waybill.dev/services/api/internal/families/accounts"
	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/shared/domain"
)

const (
	// few is how many projects a page has, and how many environments of each.
	few = 10
	// many is how many environments the page of a project has.
	many = 100
)

// group is a project with its environments.
type group struct {
	Project      project
	Environments []environment
	Total        int
	Problem      *console.Problem // the reason why environments are missing
}

type listView struct {
	Links      links
	Groups     []group
	Paging     console.Paging
	NoProjects *console.Problem
	NoList     *console.Problem
	Form       *console.Form
}

func list(p *console.Page) error {
	if name := p.Query("project"); name != "" {
		return p.Redirect(projectAt(name))
	}
	p.CLI("environments list PROJECT")
	v := listView{Links: linksOf(p), Form: console.NewForm(url.Values{})}
	asked := p.Pick("offset")
	asked.Set("limit", strconv.Itoa(few))
	var projects web.Listing[project]
	v.NoProjects = p.API.Try(console.Path("v1", "accounts", p.Account(), "projects"), asked, &projects)
	v.Paging = p.Offsets(projects.Offset, len(projects.Data), projects.Total)
	for i, one := range projects.Data {
		g := group{Project: one}
		var answer web.Listing[environment]
		if i > 0 {
			g.Problem = p.API.Try("/v1/environments", query(p, one.Name, few), &answer)
		} else if err := p.API.Get("/v1/environments", query(p, one.Name, few), &answer); err != nil {
			known, ok := errors.AsType[*console.Problem](err)
			if !ok || !known.NoOperation {
				return err
			}
			v.NoList = known
			break
		}
		g.Environments, g.Total = answer.Data, max(answer.Total, len(answer.Data))
		v.Groups = append(v.Groups, g)
	}
	return p.Show("list.html", "Environments", v)
}

type projectView struct {
	Links   links
	Project project
	Form    *console.Form
	Group   group
	May     bool
	Branch  *console.Form
}

func showProject(p *console.Page) error {
	if branch := p.Query("branch"); branch != "" {
		return p.Redirect(place{p.Param("projectName"), branch}.Path())
	}
	one := project{accounts.Project{Name: p.Param("projectName")}}
	if err := p.API.Get(inProject(p, one.Name), nil, &one); err != nil {
		return err
	}
	one.ProductionBranch = cmp.Or(one.ProductionBranch, domain.DefaultProductionBranch)
	return one.show(p, console.NewForm(url.Values{"productionBranch": {one.ProductionBranch}}))
}

func (o project) show(p *console.Page, form *console.Form) error {
	p.CLI("environments list " + console.Shell(o.Name))
	v := projectView{Links: linksOf(p), Project: o, Form: form, May: p.May(domain.ScopeGatewayWrite), Branch: console.NewForm(url.Values{})}
	var answer web.Listing[environment]
	v.Group = group{Project: o, Problem: p.API.Try("/v1/environments", query(p, o.Name, many), &answer)}
	v.Group.Environments, v.Group.Total = answer.Data, max(answer.Total, len(answer.Data))
	if form.Problem != nil {
		return p.ShowInvalid("project.html", "Environments of "+o.Name, v, form)
	}
	return p.Show("project.html", "Environments of "+o.Name, v)
}

func updateProject(p *console.Page) error {
	values, err := p.Form()
	if err != nil {
		return err
	}
	one := project{accounts.Project{Name: p.Param("projectName"), ProductionBranch: values.Get("productionBranch")}}
	form := console.NewForm(values)
	body := map[string]string{"productionBranch": one.ProductionBranch}
	if err := p.API.Send(http.MethodPatch, inProject(p, one.Name), body, nil); form.Failed(err) {
		return one.show(p, form)
	} else if err != nil {
		return err
	}
	return p.Done("The production branch is "+one.ProductionBranch+" now. It counts from the next build of each branch on.", one.Path())
}
