package deployments

import (
	"net/http"
	"strconv"

	"waybill.dev/services/api/internal/console"
	"waybill.dev/services/api/internal/families/deployments"
	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/shared/domain"
)

// goOn leads to the build that was made.
func goOn(p *console.Page, said, name, build string) error {
	if build == "" {
		return p.Done(said, pathOf(name))
	}
	return p.Done(said, pathOf(name, "builds", build))
}

func confirmDeploy(p *console.Page) error {
	d, err := read(p)
	if err != nil {
		return err
	}
	p.CLI("deployments redeploy " + console.Shell(d.Name))
	if d.Local() {
		return p.ShowConfirm(console.Confirm{
			Title: "Reload the folder?", Verb: "Reload the folder", Action: d.Path("deploy"), Back: d.Path(),
			Effect: "The files are read anew. When something is wrong with them, what is served stays.",
		})
	}
	c := console.Confirm{
		Title: "Redeploy " + d.BranchName + "?", Verb: "Redeploy", Action: d.Path("deploy"), Back: d.Path(), Facts: facts(d),
		Effect: "What is served now is built anew, with the variables as they are now. Requests go on meanwhile, and nothing changes when the build fails.",
	}
	if d.Build != nil {
		c.Facts = append(c.Facts, console.Fact{Name: "Build", Value: "#" + strconv.FormatInt(d.Build.Number, 10)})
	}
	return p.ShowConfirm(c)
}

func facts(d deployment) []console.Fact {
	return []console.Fact{
		{Name: "Project", Value: d.ProjectName}, {Name: "Branch", Value: d.BranchName},
		{Name: "Environment", Value: string(d.EnvironmentType)}, {Name: "Address", Value: d.Host()},
	}
}

func deploy(p *console.Page) error {
	name := p.Param("deploymentName")
	var m deployments.Redeployed
	if err := p.API.Send(http.MethodPost, api(name, "deploy"), struct{}{}, &m); err != nil {
		return err
	}
	if name == local {
		return p.Done("The folder is read anew.", pathOf(name))
	}
	return goOn(p, "The build is under way.", name, web.Value(m.BuildID))
}

// confirmBuild asks before an older build, or the active one, is built again.
func confirmBuild(p *console.Page) error {
	d, err := read(p)
	if err != nil {
		return err
	}
	id := p.Param("buildId")
	p.CLI("deployments redeploy " + console.Shell(d.Name) + " --build " + console.Shell(id))
	c := console.Confirm{
		Title: "Roll " + d.BranchName + " back?", Verb: "Roll back", Action: d.BuildPath(id) + "/deploy", Back: d.BuildPath(id), Facts: facts(d),
		Effect: "The archive of this build is built anew, with the variables as they are now, and then served in place of what is served now. It can be undone the same way.",
	}
	if d.Build != nil && d.Build.ID == id {
		c.Title, c.Verb = "Redeploy "+d.BranchName+"?", "Redeploy"
		c.Effect = "What is served now is built anew, with the variables as they are now."
	}
	c.Facts = append(c.Facts, console.Fact{Name: "Build", Value: id})
	return p.ShowConfirm(c)
}

func deployBuild(p *console.Page) error {
	name := p.Param("deploymentName")
	var m deployments.Redeployed
	if err := p.API.Send(http.MethodPost, api(name, "deploy"), map[string]string{"buildId": p.Param("buildId")}, &m); err != nil {
		return err
	}
	return goOn(p, "The build is under way. It serves when it has succeeded.", name, web.Value(m.BuildID))
}

func confirmDelete(p *console.Page) error {
	d, err := read(p)
	if err != nil {
		return err
	}
	p.CLI("deployments delete " + console.Shell(d.Name))
	effect := "Its address answers 404 from then on, and its builds with their logs are gone. The variables of the branch stay. It can't be undone, but the branch can be deployed anew under the same address."
	if d.EnvironmentType == domain.Production {
		effect = "This is production. " + effect
	}
	return p.ShowConfirm(console.Confirm{
		Title: "Delete the deployment of " + d.BranchName + "?", Effect: effect, Facts: facts(d),
		Verb: "Delete the deployment", Danger: true, Action: d.Path("delete"), Back: d.Path(),
	})
}

func remove(p *console.Page) error {
	name := p.Param("deploymentName")
	if err := p.API.Send(http.MethodDelete, api(name), nil, nil); err != nil {
		return err
	}
	return p.Done("The deployment "+name+" is deleted.", listPath)
}
