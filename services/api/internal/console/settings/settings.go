// Package settings has the console's page of settings: who is signed in, with what rights, from
// where else, and how the console looks.
package settings

import (
	"embed"
	"io/fs"
	"net/http"
	"time"

	"waybill.dev/services/api/internal/console"
	"waybill.dev/shared/domain"
)

//go:embed templates/*.html
var files embed.FS

// Module returns the pages.
func Module() console.Module {
	templates, _ := fs.Sub(files, "templates") // the name is a constant
	return console.Module{
		Name: "settings", Templates: templates,
		Routes: []console.Route{
			{Method: http.MethodGet, Path: "/console/settings", Handle: show},
			{Method: http.MethodPost, Path: "/console/settings/sessions/end", Static: true, Handle: endOthers},
		},
		Nav:     []console.NavEntry{{Label: "Settings", Path: "/console/settings", Icon: "settings", Order: console.OrderSettings, Key: ","}},
		Samples: samples(),
	}
}

type view struct {
	Who      who
	KeyID    string
	Person   string
	Scopes   []scope
	Session  session
	Sessions []session
}

type who struct {
	Sub     string `json:"sub"`
	Account string `json:"account"`
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
		v.Scopes = append(v.Scopes, scope{string(s), p.May(s), purpose(s)})
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

// purpose says what a scope is for.
func purpose(s domain.Scope) string {
	switch s {
	case domain.ScopeWebhooksRead:
		return "see webhooks and their health"
	case domain.ScopeWebhooksWrite:
		return "make, change and delete webhooks"
	case domain.ScopeEventsRead:
		return "see events, deliveries and statistics"
	case domain.ScopeEventsWrite:
		return "publish, test, retry and replay"
	case domain.ScopeBucketsRead:
		return "see buckets, consumers, keys and managers"
	case domain.ScopeBucketsWrite:
		return "make and revoke keys"
	case domain.ScopeMCP:
		return "use MCP servers"
	case domain.ScopeAdmin:
		return "everything, and the audit log"
	}
	return ""
}

func samples() map[string][]any {
	at := time.Date(2026, time.November, 18, 15, 2, 11, 0, time.UTC)
	own := session{"csess_1", "192.0.2.7", "Mozilla/5.0 <b>\u202e", at, at, at.Add(time.Hour), true}
	return map[string][]any{"settings.html": {
		view{},
		view{Who: who{"parcels/shop", "default"}, KeyID: "key_1", Person: "a@example.com", Session: own, Sessions: []session{own, {ID: "csess_2"}},
			Scopes: []scope{{"admin", true, "everything"}, {"mcp:use", false, "use MCP servers"}}},
	}}
}
