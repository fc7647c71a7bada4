// Package webhooks has the console's pages of webhooks: the list, one webhook with all its actions, and
// the registration of a new one.
package webhooks

import (
	"cmp"
	"embed"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"waybill.dev/services/api/internal/console"
	"waybill.dev/services/api/internal/families/webhooks"
	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/problem"
)

//go:embed templates/*.html
var files embed.FS

const (
	root = "/console/webhooks"
	one  = root + "/{webhookId}"

	oneCursor = one + "/cursors/{cursorName}"
)

// Module returns the pages.
func Module() console.Module {
	return console.Module{
		Name: "webhooks", Templates: files,
		Routes: []console.Route{
			{Method: http.MethodGet, Path: root, Handle: list},
			{Method: http.MethodGet, Path: root + "/new", Static: true, Handle: showNew},
			{Method: http.MethodPost, Path: root + "/new/address", Handle: checkAddress},
			{Method: http.MethodPost, Path: root + "/new", Handle: register},
			{Method: http.MethodGet, Path: one, Handle: showHealth},
			{Method: http.MethodGet, Path: one + "/{tab}", Handle: showTab},
			{Method: http.MethodPost, Path: one + "/settings", Handle: save},
			{Method: http.MethodPost, Path: one + "/activate", Handle: activate},
			{Method: http.MethodGet, Path: one + "/pause", Handle: askPause},
			{Method: http.MethodPost, Path: one + "/pause", Handle: pause},
			{Method: http.MethodGet, Path: one + "/delete", Handle: askDelete},
			{Method: http.MethodPost, Path: one + "/delete", Handle: remove},
			{Method: http.MethodPost, Path: one + "/secret", Handle: rotate},
			{Method: http.MethodPost, Path: one + "/test", Handle: sendTest},
			{Method: http.MethodGet, Path: oneCursor + "/delete", Handle: askDeleteCursor},
			{Method: http.MethodPost, Path: oneCursor + "/delete", Handle: deleteCursor},
			{Method: http.MethodGet, Path: keysPath, Handle: showKeys},
			{Method: http.MethodGet, Path: keysPath + "/rotate", Static: true, Handle: askRotation},
			{Method: http.MethodPost, Path: keysPath + "/rotate", Handle: rotateKeys},
			{Method: http.MethodGet, Path: one + "/replay", Handle: showReplay},
			{Method: http.MethodPost, Path: one + "/replay", Handle: replay},
		},
		Find: find,
		Nav:  []console.NavEntry{{Label: "Webhooks", Path: root, Icon: "webhooks", Order: console.OrderWebhooks, Key: "w", Scopes: []domain.Scope{domain.ScopeWebhooksRead}}},
	}
}

// webhook is a webhook as the API shows it.
type webhook struct {
	webhooks.Webhook

	// given are all members as the API has written them. Only the pages of a single webhook set it.
	given map[string]jsontext.Value
}

// state is the state of a webhook for a badge.
type state struct{ Tone, Text string }

// maxName is how much of an address a heading shows. The settings show all of it.
const maxName = 160

// short returns the address, cut when it is too long, or the id of a webhook without an address.
func (w *webhook) short() string {
	if w.URL == nil {
		return "Feed " + string(w.ID)
	}
	if text := []rune(*w.URL); len(text) > maxName {
		return string(text[:maxName]) + "…"
	}
	return *w.URL
}

// Waits writes the retry schedule in units that people use.
func (w *webhook) Waits() string {
	texts := make([]string, 0, len(w.RetryScheduleSeconds))
	for _, seconds := range w.RetryScheduleSeconds {
		texts = append(texts, wait(seconds))
	}
	if len(texts) == 0 {
		return "no retries"
	}
	return strings.Join(texts, ", ")
}

func wait(seconds float64) string {
	for _, unit := range []struct {
		of   float64
		name string
	}{{86_400, "d"}, {3600, "h"}, {60, "min"}} {
		if n := seconds / unit.of; n >= 1 && n == float64(int(n)) {
			return fmt.Sprintf("%d %s", int(n), unit.name)
		}
	}
	return fmt.Sprintf("%g s", seconds)
}

// head is the data at the top of all pages of a webhook.
type head struct {
	Webhook  webhook
	Name     string // its description, or else its address, not too long for a heading
	Address  string // set if there is a description, too
	State    state
	Auth     authView
	Tabs     []console.Tab
	MayWrite bool // the session may change it
	MaySend  bool // the session may test and replay
}

// tabNames returns the tabs of a webhook; the first is at the webhook's own path.
func tabNames() []string {
	return []string{"health", "deliveries", "feed", "settings", "secret", "test", "code"}
}

// read reads the webhook of the path.
func read(p *console.Page, tab string) (head, error) {
	h := head{MayWrite: p.May(domain.ScopeWebhooksWrite), MaySend: p.May(domain.ScopeEventsWrite)}
	id := p.Param("webhookId")
	var body []byte
	if err := p.API.Get(console.Path("v1", "webhooks", id), url.Values{"include": {"health"}}, &body); err != nil {
		return h, err
	}
	if err := errors.Join(json.Unmarshal(body, &h.Webhook), json.Unmarshal(body, &h.Webhook.given)); err != nil {
		return h, err
	}
	h.State, h.Name, h.Auth = h.Webhook.state(), cmp.Or(h.Webhook.Description, h.Webhook.short()), h.Webhook.auth()
	if h.Webhook.Description != "" {
		h.Address = h.Webhook.short()
	}
	h.tabs(id, tab)
	p.CLI("webhooks get " + string(h.Webhook.ID))
	return h, nil
}

func (h *head) tabs(id, current string) {
	for _, name := range tabNames() {
		path := console.Path("console", "webhooks", id, name)
		if name == "health" {
			path = at(id)
		}
		h.Tabs = append(h.Tabs, console.Tab{Label: strings.ToUpper(name[:1]) + name[1:], Path: path, Current: name == current})
	}
}

func (h *head) title(tab string) string { return h.Name + ": " + tab }

// at returns the path of a webhook's page, or of a page below it.
func at[S ~string](id S, more ...S) string {
	return console.Path(append([]S{"console", "webhooks", id}, more...)...)
}

func showTab(p *console.Page) error {
	switch p.Param("tab") {
	case "health":
		return showHealth(p)
	case "deliveries":
		return showDeliveries(p)
	case "feed":
		return showFeed(p)
	case "settings":
		return showSettings(p)
	case "secret":
		return showSecret(p)
	case "test":
		return showTest(p)
	case "code":
		return showCode(p)
	}
	return problem.New(problem.NotFound, "There is no such page of a webhook.")
}

// names converts texts to another type.
func names[A, B ~string](of []A) []B { return web.Views(of, func(a A) B { return B(a) }) }

const day = 24 * time.Hour
