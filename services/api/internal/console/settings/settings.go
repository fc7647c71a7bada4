// Package settings has the console's page of settings: the key or person that is signed in, its
// rights and other sessions, and the look of the console.
package settings

import (
	"embed"
	"net/http"
	"time"

	"waybill.dev/services/api/internal/console"
	"waybill.dev/services/api/internal/console/words"
	"waybill.dev/services/api/internal/families/accounts"
	"waybill.dev/shared/domain"
)

//go:embed templates/*.html
var files embed.FS

// Module returns the pages.
func Module() console.Module {
	return console.Module{
		Name: "settings", Templates: files,
		Routes: []console.Route{
			{Method: http.MethodGet, Path: "/console/settings", Handle: show},
			{Method: http.MethodPost, Path: "/console/settings/sessions/end", Static: true, Handle: endOthers},
		},
		Nav: []console.NavEntry{{Label: "Settings", Path: "/console/settings", Icon: "settings", Order: console.OrderSettings, Key: ","}},
	}
}

type view struct {
	Who      accounts.Caller
	KeyID    string
	Person   string
	Scopes   []scope
	Session  session
	Sessions []session
}

type scope struct {
	Name string
	Held bool
	For  string
}

type session struct {
	ID, Address, UserAgent       string
	CreatedOn, SeenOn, ExpiresOn time.Time
	Own                          bool
}

func show(p *console.Page) error {
	var v view
	if err := p.API.Get("/v1/who-am-i", nil, &v.Who); err != nil {
		return err
	}
	p.CLI("whoami")
	v.KeyID, v.Person = p.Session.KeyID, p.Session.Person
	for _, s := range domain.Scopes() {
		v.Scopes = append(v.Scopes, scope{string(s), p.May(s), words.Scope(s)})
	}
	list, err := p.Sessions()
	if err != nil {
		return err
	}
	for _, s := range list {
		one := session{s.ID, s.Address, s.UserAgent, s.CreatedOn, s.SeenOn, s.ExpiresOn, s.ID == p.Session.ID}
		if one.Own {
			v.Session = one
		}
		v.Sessions = append(v.Sessions, one)
	}
	return p.Show("settings.html", "Settings", v)
}

func endOthers(p *console.Page) error {
	if err := p.EndOtherSessions(); err != nil {
		return err
	}
	return p.Done("All other sessions of this key have ended.", "/console/settings")
}
