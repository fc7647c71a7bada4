// Package certificates has the console's pages of CA certificates, whose clients are let in.
package certificates

import (
	"embed"
	"net/http"
	"net/url"
	"strconv"

	"waybill.dev/services/api/internal/console"
	"waybill.dev/services/api/internal/families/clientcas"
	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/shared/domain"
)

//go:embed templates/*.html
var files embed.FS

const (
	listPath        = "/console/certificates"
	certificatePath = listPath + "/{certificateId}"
	order           = console.OrderEnvironments + 6
)

// Module returns the pages.
func Module() console.Module {
	show, act := console.Shown, console.Acted
	return console.Module{
		Name: "certificates", Templates: files,
		Nav: []console.NavEntry{{Label: "Client certificates", Path: listPath, Icon: "certificates", Order: order, Scopes: []domain.Scope{domain.ScopeGatewayRead}}},
		Routes: []console.Route{
			show(listPath, list), act(listPath, create),
			show(certificatePath, showCertificate), act(certificatePath, rename),
			show(certificatePath+"/delete", confirmDeletion), act(certificatePath+"/delete", remove),
		},
	}
}

// ca is a CA certificate as the API shows it.
type ca struct {
	clientcas.CA

	Ended bool `json:"-"`
}

// Path returns the path of the CA certificate's page, or of a page below it.
func (c ca) Path(more ...string) string { return at(c.ID, more...) }

func at(id string, more ...string) string {
	return console.Path(append([]string{"console", "certificates", id}, more...)...)
}

// ended reports whether the certificate has ended.
func (c ca) ended(p *console.Page) bool {
	ends := web.Time(c.CertificateInfo.ValidTo)
	return !ends.IsZero() && p.Now().After(ends)
}

// in returns a path of CA certificates in the API.
func in(p *console.Page, more ...string) string {
	return console.Path(append([]string{"v1", "accounts", p.Account(), "client-mtls-ca-certificates"}, more...)...)
}

type listView struct {
	Certificates []ca
	Form         *console.Form
	May          bool
}

func list(p *console.Page) error { return showList(p, console.NewForm(url.Values{})) }

func showList(p *console.Page, form *console.Form) error {
	p.CLI("certificates list")
	var answer web.Listing[ca]
	if err := p.API.Get(in(p), url.Values{"limit": {strconv.Itoa(domain.MaxClientCAs)}}, &answer); err != nil {
		return err
	}
	for i := range answer.Data {
		answer.Data[i].Ended = answer.Data[i].ended(p)
	}
	v := listView{answer.Data, form, p.May(domain.ScopeGatewayWrite)}
	if form.Problem != nil {
		return p.ShowInvalid("list.html", "Client certificates", v, form)
	}
	return p.Show("list.html", "Client certificates", v)
}

func create(p *console.Page) error {
	values, err := p.Form()
	if err != nil {
		return err
	}
	form := console.NewForm(values)
	var made ca
	body := map[string]string{"name": values.Get("name"), "certificate": values.Get("certificate")}
	if err := p.API.Send(http.MethodPost, in(p), body, &made); form.Failed(err) {
		values.Del("certificate") // the user may have pasted a private key
		return console.Again(showList(p, form), err)
	} else if err != nil {
		return err
	}
	return p.Done("The CA certificate is uploaded. Its clients are let in within a second.", made.Path())
}

type certificateView struct {
	CA   ca
	Form *console.Form
	May  bool
}

func find(p *console.Page) (found ca, err error) {
	err = p.API.Get(in(p, p.Param("certificateId")), nil, &found)
	found.Ended = found.ended(p)
	return found, err
}

func showCertificate(p *console.Page) error { return page(p, nil) }

func page(p *console.Page, form *console.Form) error {
	found, err := find(p)
	if err != nil {
		return err
	}
	p.CLI("certificates get " + found.ID)
	v := certificateView{found, form, p.May(domain.ScopeGatewayWrite)}
	if form != nil {
		return p.ShowInvalid("certificate.html", "CA certificate "+found.Name, v, form)
	}
	v.Form = console.NewForm(url.Values{"name": {found.Name}})
	return p.Show("certificate.html", "CA certificate "+found.Name, v)
}

func rename(p *console.Page) error {
	values, err := p.Form()
	if err != nil {
		return err
	}
	form := console.NewForm(values)
	id := p.Param("certificateId")
	if err := p.API.Send(http.MethodPatch, in(p, id), map[string]string{"name": values.Get("name")}, nil); form.Failed(err) {
		return console.Again(page(p, form), err)
	} else if err != nil {
		return err
	}
	return p.Done("The CA certificate is renamed.", at(id))
}

func confirmDeletion(p *console.Page) error {
	found, err := find(p)
	if err != nil {
		return err
	}
	p.CLI("certificates delete " + found.ID)
	return p.ShowConfirm(console.Confirm{
		Title: "Delete " + found.Name + "?", Effect: "Clients with certificates of this CA are refused within a second, also on connections that are open.",
		Facts: []console.Fact{{Name: "Subject", Value: found.CertificateInfo.Subject}, {Name: "Fingerprint", Value: found.SHA256Fingerprint}},
		Verb:  "Delete the certificate", Danger: true, Action: found.Path("delete"), Back: found.Path(),
	})
}

func remove(p *console.Page) error {
	if err := p.API.Send(http.MethodDelete, in(p, p.Param("certificateId")), nil, nil); err != nil {
		return err
	}
	return p.Done("The CA certificate is deleted.", listPath)
}
