// Package domains has the console's pages of custom domains: the state of each, and the missing DNS
// records.
package domains

import (
	"embed"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"waybill.dev/services/api/internal/console"
	"waybill.dev/services/api/internal/families/domains"
	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/shared/domain"
)

//go:embed templates/*.html
var files embed.FS

const (
	listPath = "/console/domains"
	order    = console.OrderEnvironments + 4
)

// Module returns the pages.
func Module() console.Module {
	show, act := console.Shown, console.Acted
	return console.Module{
		Name: "domains", Templates: files,
		Nav: []console.NavEntry{{Label: "Custom domains", Path: listPath, Icon: "domains", Order: order, Scopes: []domain.Scope{domain.ScopeGatewayRead}}},
		Routes: []console.Route{
			show(listPath, list), act(listPath, create),
			act(listPath+"/update", update), act(listPath+"/verify", verify),
			show(listPath+"/delete", confirmRemoval), act(listPath+"/delete", remove),
			act(listPath+"/certificate", upload), show(listPath+"/certificate/delete", confirmCertificateRemoval), act(listPath+"/certificate/delete", removeCertificate),
		},
	}
}

// item is a custom domain as the API shows it.
type item struct{ domains.Domain }

// Deployment returns the name of the deployment that the domain leads to; empty: none.
func (i item) Deployment() string {
	if len(i.Deployments) == 0 {
		return ""
	}
	return web.Value(i.Deployments[0].DeploymentName)
}

// Waits reports whether the account has not proved the hostname yet.
func (i item) Waits() bool { return i.Status != "active" }

// Unproven reports whether the record has to be set.
func (i item) Unproven() bool { return i.Waits() || i.NoticeUntil != nil }

// Uploaded reports whether the certificate is the account's.
func (i item) Uploaded() bool {
	return web.Value(i.Certificate.Source) == string(domain.CertificateUploaded)
}

// in returns a path of custom domains in the API.
func in(p *console.Page, more ...string) string {
	return console.Path(append([]string{"v1", "accounts", p.Account(), "custom-domains"}, more...)...)
}

type listView struct {
	Domains []item
	Form    *console.Form
	May     bool
}

// read returns the custom domains of the account.
func read(p *console.Page) ([]item, error) {
	var answer web.Listing[item]
	err := p.API.Get(in(p), url.Values{"limit": {strconv.Itoa(domain.MaxCustomDomains)}}, &answer)
	return answer.Data, err
}

// ask asks before a part of the domain, which the query names, is removed. If the domain has been
// deleted already, it redirects to the list.
func ask(p *console.Page, question func(d item) console.Confirm) error {
	all, err := read(p)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(all, func(d item) bool { return d.Hostname == p.Query("hostname") })
	if i < 0 {
		return p.Redirect(listPath)
	}
	c := question(all[i])
	c.Facts, c.Hidden = all[i].facts(), url.Values{"hostname": {all[i].Hostname}}
	c.Danger, c.Back = true, listPath
	return p.ShowConfirm(c)
}

func list(p *console.Page) error { return showList(p, console.NewForm(url.Values{})) }

func showList(p *console.Page, form *console.Form) error {
	p.CLI("domains list")
	all, err := read(p)
	if err != nil {
		return err
	}
	v := listView{all, form, p.May(domain.ScopeGatewayWrite)}
	if form.Problem != nil {
		return p.ShowInvalid("list.html", "Custom domains", v, form)
	}
	return p.Show("list.html", "Custom domains", v)
}

// send sends a form to the API, with the named members that are filled in.
func send(p *console.Page, method, path, done string, names ...string) error {
	values, err := p.Form()
	if err != nil {
		return err
	}
	body := make(map[string]string)
	for _, name := range names {
		if value := values.Get(name); value != "" {
			body[name] = value
		}
	}
	values.Del("privateKey") // the key is never shown again, whatever the result
	form := console.NewForm(values)
	if err := p.API.Send(method, path, body, nil); form.Failed(err) {
		return console.Again(showList(p, form), err)
	} else if err != nil {
		return err
	}
	return p.Done(done, listPath)
}

func create(p *console.Page) error {
	return send(p, http.MethodPost, in(p), "The domain is added. Set its records, if it waits for them.", "hostname", "deploymentName")
}

func update(p *console.Page) error {
	return send(p, http.MethodPatch, in(p), "The domain leads to that deployment now.", "hostname", "deploymentName")
}

func verify(p *console.Page) error {
	return send(p, http.MethodPost, in(p, "verify"), "DNS was asked.", "hostname")
}

func upload(p *console.Page) error {
	return send(p, http.MethodPut, in(p, "certificate"), "The certificate is used from now on.", "hostname", "certificate", "privateKey")
}

func confirmCertificateRemoval(p *console.Page) error {
	return ask(p, func(d item) console.Confirm {
		return console.Confirm{
			Title: "Remove the certificate of " + d.Hostname + "?", Verb: "Remove the certificate", Action: listPath + "/certificate/delete",
			Effect: "Clients get another one from then on: that of the installation's authority, if it has one. Without any, they can't connect.",
		}
	})
}

func removeCertificate(p *console.Page) error {
	return send(p, http.MethodDelete, in(p, "certificate"), "The certificate is gone.", "hostname")
}

func confirmRemoval(p *console.Page) error {
	return ask(p, func(d item) console.Confirm {
		p.CLI("domains delete " + d.Hostname)
		return console.Confirm{
			Title: "Remove " + d.Hostname + "?", Verb: "Remove the domain", Action: listPath + "/delete",
			Effect: "Its requests are answered with 404 from then on, and its certificate is deleted. To add it again, you must show again that it is yours.",
		}
	})
}

// facts returns what is lost with a domain or its certificate.
func (i item) facts() []console.Fact {
	facts := []console.Fact{{Name: "Status", Value: i.Status}}
	if to := i.Deployment(); to != "" {
		facts = append(facts, console.Fact{Name: "Leads to", Value: to})
	}
	if i.Certificate.ValidTo != nil {
		facts = append(facts, console.Fact{Name: "Certificate until", Value: *i.Certificate.ValidTo})
	}
	return facts
}

func remove(p *console.Page) error {
	values, err := p.Form()
	if err != nil {
		return err
	}
	if err := p.API.Delete(in(p), url.Values{"hostname": {values.Get("hostname")}}); err != nil {
		return err
	}
	return p.Done("The domain is removed.", listPath)
}
