package access

import (
	"cmp"
	"net/http"
	"net/url"

	"waybill.dev/services/api/internal/console"
	"waybill.dev/services/api/internal/families/accounts"
	"waybill.dev/services/api/internal/families/keys"
	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/shared/domain"
)

// named is a project or an account. The page uses only the members of an account that a project
// has, too.
type named = accounts.Account

// namesView is the data of the pages of projects and accounts.
type namesView struct {
	Tabs    []console.Tab
	Account string
	Names   []named
	Paging  console.Paging
	Form    *console.Form
	May     bool
}

func listProjects(p *console.Page) error { return projects(p, console.NewForm(url.Values{})) }

// projects shows the projects with the form of a new one.
func projects(p *console.Page, form *console.Form) error {
	v := namesView{Tabs: tabs(projectsPath), Account: p.Account(), Form: form, May: p.May(domain.ScopeBucketsWrite)}
	var answer web.Listing[named]
	if err := read(p, form, account(p, "projects"), &answer); err != nil {
		return err
	}
	p.CLI("projects list")
	v.Names, v.Paging = answer.Data, p.Offsets(answer.Offset, len(answer.Data), answer.Total)
	if form.Problem != nil {
		return p.ShowInvalid("projects.html", "Projects", v, form)
	}
	return p.Show("projects.html", "Projects", v)
}

func createProject(p *console.Page) error {
	values, err := p.Form()
	if err != nil {
		return err
	}
	form := console.NewForm(values)
	if err := p.API.Send(http.MethodPost, "/v1/projects", map[string]string{"name": values.Get("name")}, nil); form.Failed(err) {
		return projects(p, form)
	} else if err != nil {
		return err
	}
	return p.Done("Project "+values.Get("name")+" is there, with its three buckets.", projectsPath)
}

// read reads a list that is shown below a form. A form with faults is shown without the list if
// that can't be read.
func read(p *console.Page, form *console.Form, path string, into *web.Listing[named]) error {
	if form.Problem == nil {
		return p.API.Get(path, page(p, few), into)
	}
	_ = p.API.Try(path, page(p, few), into)
	return nil
}

func listAccounts(p *console.Page) error { return allAccounts(p, console.NewForm(url.Values{})) }

// allAccounts shows the accounts that the API shows. Only the bootstrap key makes some.
func allAccounts(p *console.Page, form *console.Form) error {
	v := namesView{Tabs: tabs(accountsPath), Account: p.Account(), Form: form, May: p.Bootstrap()}
	var answer web.Listing[named]
	if err := read(p, form, "/v1/accounts", &answer); err != nil {
		return err
	}
	p.CLI("accounts list")
	v.Names, v.Paging = answer.Data, p.Offsets(answer.Offset, len(answer.Data), answer.Total)
	if form.Problem != nil {
		return p.ShowInvalid("accounts.html", "Accounts", v, form)
	}
	return p.Show("accounts.html", "Accounts", v)
}

func createAccount(p *console.Page) error {
	values, err := p.Form()
	if err != nil {
		return err
	}
	form := console.NewForm(values)
	var answer named
	if err := p.API.Send(http.MethodPost, "/v1/accounts", map[string]string{"name": values.Get("name")}, &answer); form.Failed(err) {
		return allAccounts(p, form)
	} else if err != nil {
		return err
	}
	return p.Show("made.html", "New account", madeKeys{What: "Account " + answer.Name + " is there. This is its admin key.", Keys: []keys.Key{{Key: answer.Key}}, Next: accountsPath})
}

func confirmAdminKey(p *console.Page) error {
	name := p.Query("account")
	var answer named
	if err := p.API.Get(console.Path("v1", "accounts", name), nil, &answer); err != nil {
		return err
	}
	if !p.Bootstrap() {
		return needs(p, accountsPath, domain.ScopeAdmin)
	}
	p.CLI("accounts recover " + answer.Name)
	return p.ShowConfirm(console.Confirm{
		Title: "Make an admin key of " + answer.Name + "?", Effect: "Another key that may do everything in the account is made and shown once. Those that there are stay. It is written to the audit log of both accounts.",
		Facts: []console.Fact{{Name: "Account", Value: answer.Name}}, Verb: "Make the admin key",
		Action: adminKeyPath, Hidden: url.Values{"account": {answer.Name}}, Back: accountsPath,
	})
}

func createAdminKey(p *console.Page) error {
	values, err := p.Form()
	if err != nil {
		return err
	}
	var answer accounts.AdminKey
	name := cmp.Or(values.Get("account"), "-") // an invalid name, which the API refuses
	if err := p.API.Send(http.MethodPost, console.Path("v1", "accounts", name, "admin-keys"), nil, &answer); err != nil {
		return err
	}
	return p.Show("made.html", "New admin key", madeKeys{What: "This is a new admin key of account " + name + ".", Keys: []keys.Key{{Key: answer.Key}}, Next: accountsPath})
}
