// Package tunnels has the console's pages of tunnels: the connected agents, the services behind
// them, and the tokens.
package tunnels

import (
	"embed"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"

	"waybill.dev/services/api/internal/console"
	"waybill.dev/services/api/internal/families/tunnels"
	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/shared/domain"
)

//go:embed templates/*.html
var files embed.FS

const (
	listPath   = "/console/tunnels"
	tunnelPath = listPath + "/{tunnelId}"
	order      = console.OrderEnvironments + 5
)

// Module returns the pages.
func Module() console.Module {
	show, act := console.Shown, console.Acted
	return console.Module{
		Name: "tunnels", Templates: files,
		Nav: []console.NavEntry{{Label: "Tunnels", Path: listPath, Icon: "tunnels", Order: order, Scopes: []domain.Scope{domain.ScopeGatewayRead}}},
		Routes: []console.Route{
			show(listPath, list), act(listPath, create),
			show(tunnelPath, showTunnel), act(tunnelPath, configure),
			show(tunnelPath+"/rotate", confirmRotation), act(tunnelPath+"/rotate", rotate),
			show(tunnelPath+"/delete", confirmDeletion), act(tunnelPath+"/delete", remove),
		},
	}
}

// item is a tunnel as a list of the API shows it.
type item struct{ tunnels.Item }

// Path returns the path of the tunnel's page.
func (i item) Path() string { return at(i.ID) }

// tunnel is a tunnel as the API shows it. Only answers that make a token contain the whole token.
type tunnel struct{ tunnels.Tunnel }

// Path returns the path of the tunnel's page, or of a page below it.
func (t tunnel) Path(more ...string) string { return at(t.TunnelID, more...) }

func at(id string, more ...string) string {
	return console.Path(append([]string{"console", "tunnels", id}, more...)...)
}

// in returns a path of tunnels in the API.
func in(p *console.Page, more ...string) string {
	return console.Path(append([]string{"v1", "accounts", p.Account(), "tunnels"}, more...)...)
}

type listView struct {
	Tunnels []item
	Form    *console.Form
	May     bool
}

func list(p *console.Page) error { return showList(p, console.NewForm(url.Values{})) }

func showList(p *console.Page, form *console.Form) error {
	p.CLI("tunnels list")
	var answer web.Listing[item]
	err := p.API.Get(in(p), url.Values{"limit": {strconv.Itoa(domain.MaxTunnels)}}, &answer)
	if err != nil {
		return err
	}
	v := listView{answer.Data, form, p.May(domain.ScopeGatewayWrite)}
	if form.Problem != nil {
		return p.ShowInvalid("list.html", "Tunnels", v, form)
	}
	return p.Show("list.html", "Tunnels", v)
}

func create(p *console.Page) error {
	values, err := p.Form()
	if err != nil {
		return err
	}
	form := console.NewForm(values)
	var made tunnel
	body := map[string]string{"name": values.Get("name")}
	if err := p.API.Send(http.MethodPost, in(p), body, &made); form.Failed(err) {
		return console.Again(showList(p, form), err)
	} else if err != nil {
		return err
	}
	return p.Show("token.html", "Token of "+made.Name, made)
}

type tunnelView struct {
	Tunnel   tunnel
	Services []domain.TunnelService
	Form     *console.Form
	May      bool
}

func showTunnel(p *console.Page) error { return page(p, nil) }

// page shows a tunnel, with its current services or, after a fault, the typed document.
func page(p *console.Page, form *console.Form) error {
	id := p.Param("tunnelId")
	p.CLI("tunnels services " + console.Shell(id))
	v := tunnelView{Form: form, May: p.May(domain.ScopeGatewayWrite)}
	if err := p.API.Get(in(p, id), nil, &v.Tunnel); err != nil {
		return err
	}
	var document json.RawMessage
	if err := p.API.Get(in(p, id, "services-configuration"), nil, &document); err != nil {
		return err
	}
	var read struct {
		Services []domain.TunnelService `json:"services"`
	}
	if err := json.Unmarshal(document, &read); err != nil {
		return err
	}
	v.Services = read.Services
	if form != nil {
		return p.ShowInvalid("tunnel.html", "Tunnel "+v.Tunnel.Name, v, form)
	}
	text, err := json.MarshalIndent(document, "", "  ")
	if err != nil {
		return err
	}
	v.Form = console.NewForm(url.Values{"document": {string(text)}})
	return p.Show("tunnel.html", "Tunnel "+v.Tunnel.Name, v)
}

func configure(p *console.Page) error {
	values, err := p.Form()
	if err != nil {
		return err
	}
	form := console.NewForm(values)
	document, ok := form.JSON("document")
	if !ok {
		return page(p, form)
	}
	id := p.Param("tunnelId")
	var o tunnels.Operation
	if err := p.API.Send(http.MethodPut, in(p, id, "services-configuration"), document, &o); form.Failed(err) {
		return console.Again(page(p, form), err)
	} else if err != nil {
		return err
	}
	said := "The configuration holds."
	if o.Status == domain.OperationInProgress {
		said = "The agents are given the configuration. It holds when all have taken it, within 10 seconds, or not at all: load the page again."
	}
	return p.Done(said, at(id))
}

// find returns the tunnel that the page's path names.
func find(p *console.Page) (t tunnel, err error) {
	err = p.API.Get(in(p, p.Param("tunnelId")), nil, &t)
	return t, err
}

func confirmRotation(p *console.Page) error {
	t, err := find(p)
	if err != nil {
		return err
	}
	p.CLI("tunnels rotate " + t.TunnelID + " --overlap 1h")
	return p.ShowConfirm(console.Confirm{
		Title: "Give " + t.Name + " another token?", Effect: "The new one is shown once. The one before goes on for an hour: start agents with the new one in that time, and no request fails.",
		Facts: []console.Fact{{Name: "Token", Value: t.Token}}, Verb: "Make a new token", Action: t.Path("rotate"), Back: t.Path(),
	})
}

// overlap is how long the old token stays valid, in seconds, when it is rotated on a page.
const overlap = 3600

func rotate(p *console.Page) error {
	var t tunnel
	err := p.API.Send(http.MethodPost, in(p, p.Param("tunnelId"), "$rotate-token"), map[string]int{"overlapSeconds": overlap}, &t)
	if err != nil {
		return err
	}
	return p.Show("token.html", "Token of "+t.Name, t)
}

func confirmDeletion(p *console.Page) error {
	t, err := find(p)
	if err != nil {
		return err
	}
	p.CLI("tunnels delete " + t.TunnelID)
	return p.ShowConfirm(console.Confirm{
		Title: "Delete " + t.Name + "?", Effect: "Its services can't be used from now on. Agents are disconnected; requests that run have up to 30 seconds.",
		Facts: []console.Fact{{Name: "Connections", Value: strconv.Itoa(len(t.Connections))}}, Verb: "Delete the tunnel", Danger: true, Action: t.Path("delete"), Back: t.Path(),
	})
}

func remove(p *console.Page) error {
	if err := p.API.Send(http.MethodDelete, in(p, p.Param("tunnelId")), nil, nil); err != nil {
		return err
	}
	return p.Done("The tunnel is deleted. Its connections end within 30 seconds.", listPath)
}
