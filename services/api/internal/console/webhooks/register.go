package webhooks

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"waybill.dev/services/api/internal/console"
	"waybill.dev/services/api/internal/families/insight"
	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/shared/domain"
)

type newView struct {
	Step      int // 1: the address; 2: the types and the rest
	Form      *console.Form
	Types     []choice
	Signings  []console.Option
	Orderings []console.Option
	Pull      bool   // the receiver reads the feed, so no address is needed
	Key       string // key of the form, so that it registers only once
	MayMake   bool
	Auth      authView
	Dropped   bool // needed by the settings template; a new webhook has nothing to drop
}

const newPath = root + "/new"

// forAlerts is the parameter of the page of alerts: the new webhook gets alerts about others.
const forAlerts = "alerts"

// showNew shows the step that the address names. The address also has the values of the steps
// before.
func showNew(p *console.Page) error {
	v := newView{Step: 1, Form: console.NewForm(p.Pick("url", "description")), MayMake: p.May(domain.ScopeWebhooksWrite)}
	v.Pull = p.Query("delivery") == string(domain.DeliveryPull)
	if p.Query("step") == "types" && (v.Pull || p.Query("url") != "") {
		on := domain.EventTypes()
		if p.Query("for") == forAlerts {
			on = domain.AlertTypes()
		}
		v.second(p, on)
	}
	return p.Show("new.html", "New webhook", v)
}

// second shows the step in which types are chosen.
func (v *newView) second(p *console.Page, on []domain.EventType) {
	v.Step, v.Key, v.Types, v.Signings, v.Orderings, v.Auth = 2, console.NewKey(), choices(on), signings(), orderings(), (&webhook{}).auth()
	until := p.Now().UTC().Truncate(day)
	var days insight.Statistics
	query := url.Values{
		"step": {"day"}, "by": {"type"}, "since": {until.Add(-day).Format(time.RFC3339)}, "until": {until.Format(time.RFC3339)},
	}
	if p.API.Try("/v1/statistics", query, &days) != nil {
		return // the types can be chosen without the volumes
	}
	for i := range v.Types {
		v.Types[i].Known = true
		for _, s := range days.Data {
			if s.Type == v.Types[i].Name && s.Events != nil {
				v.Types[i].Yesterday += *s.Events
			}
		}
	}
}

// checkAddress asks the API about an address. It sends a registration without types, which never
// registers anything, but gets the same faults for the address as a complete one.
func checkAddress(p *console.Page) error {
	given, err := p.Form()
	if err != nil {
		return err
	}
	address := strings.TrimSpace(given.Get("url"))
	form := console.NewForm(url.Values{"url": {address}})
	err = p.API.Send(http.MethodPost, "/v1/webhooks", map[string]any{"url": address, "events": []string{}}, nil)
	if !form.Failed(err) {
		return err
	}
	if slices.ContainsFunc(form.Problem.Faults, func(f console.Fault) bool { return f.Pointer == "/url" }) {
		return p.ShowInvalid("new.html", "New webhook", newView{Step: 1, Form: form, MayMake: true}, form)
	}
	next := url.Values{"step": {"types"}, "url": {address}}
	if given.Get("for") == forAlerts {
		next.Set("for", forAlerts)
	}
	return p.Redirect(newPath + "?" + next.Encode())
}

func register(p *console.Page) error {
	given, err := p.Form()
	if err != nil {
		return err
	}
	body, err := changed(given, url.Values{"signing": {string(domain.SigningV1)}, "ordering": {string(domain.OrderingNone)}, "delivery": {string(domain.DeliveryPush)}})
	if err != nil {
		return err
	}
	body["events"] = append([]string{}, given["events"]...)
	form := console.NewForm(withoutSecrets(given))
	asked := p.Now().Truncate(time.Millisecond)
	var made webhook
	if err := p.API.SendOnce("/v1/webhooks", given.Get("key"), body, &made); form.Failed(err) {
		v := newView{Form: form, MayMake: true, Pull: given.Get("delivery") == string(domain.DeliveryPull)}
		v.second(p, names[string, domain.EventType](given["events"]))
		return p.ShowInvalid("new.html", "New webhook", v, form)
	} else if err != nil {
		return err
	}
	if web.Time(made.CreatedAt).Before(asked) {
		// The form was sent a second time. Its secret was shown at the first.
		return p.Done("The webhook is registered already. Its secret was shown once; rotate it if you don't have it.", at(made.ID, "secret"))
	}
	v := newOnce(p, made, made.Secret)
	v.New, v.Stored = true, at(made.ID)
	return p.Show("once.html", "Webhook registered", v)
}
