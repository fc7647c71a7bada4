package webhooks

import (
	"net/http"
	"net/url"

	"waybill.dev/services/api/internal/console"
	"waybill.dev/services/api/internal/families/deliveries"
	"waybill.dev/services/api/internal/families/webhooks"
	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/shared/domain"
)

type secretView struct {
	head

	Overlaps []console.Option
	Form     *console.Form
	Until    *string              // when the old secret ends, as long as it is valid
	Test     *deliveries.Delivery // the latest test; nil: there is none
}

// overlaps returns the choices for how long the old secret is also used.
func overlaps() []console.Option {
	return []console.Option{
		{Value: "86400", Label: "24 hours"}, {Value: "3600", Label: "1 hour"},
		{Value: "604800", Label: "7 days"}, {Value: "0", Label: "not at all: it leaked"},
	}
}

func showSecret(p *console.Page) error {
	h, err := read(p, "secret")
	if err != nil {
		return err
	}
	v := secretView{head: h, Overlaps: overlaps(), Form: console.NewForm(url.Values{"overlapSeconds": {"86400"}})}
	if v.Until = h.Webhook.PreviousSecretExpiresAt; v.Until != nil {
		v.Test = lastTest(p, h.Webhook.ID)
	}
	return p.Show("secret.html", h.title("secret"), v)
}

// lastTest returns the latest test of a webhook; nil: there is none, or it can't be told.
func lastTest(p *console.Page, id domain.WebhookID) *deliveries.Delivery {
	tests, problem := recentTests(p, id)
	if problem != nil || len(tests) == 0 {
		return nil
	}
	return &tests[0]
}

// onceView is the data of the only page that shows a secret. It is the answer to the form that
// asked for it, and has no address of its own: going back to it leads to the page of the form.
type onceView struct {
	Webhook  webhook
	Name     string
	New      bool // the webhook is also new
	Secret   string
	Until    *string   // when the old secret ends; nil: there is none
	Stored   string    // path of the next page
	Snippets []snippet // code that checks with the secret
	Public   []snippet // code that checks with a public key
	Types    []console.Option
	MaySend  bool
}

func rotate(p *console.Page) error {
	form, err := p.Form()
	if err != nil {
		return err
	}
	id := p.Param("webhookId")
	// A reloaded page sends its form again, but the secret is rotated only once.
	var now webhook
	problem := p.API.Try(console.Path("v1", "webhooks", id), nil, &now)
	if seen := form.Get("seen"); problem == nil && seen != "" && seen != web.Value(now.UpdatedAt) {
		return p.Done("The webhook has been changed since that form was shown, so its secret was not rotated again.", at(id, "secret"))
	}
	var made webhooks.Rotated
	body := map[string]any{}
	if text := form.Get("overlapSeconds"); text != "" {
		body["overlapSeconds"] = number(text)
	}
	f := console.NewForm(form)
	if err := p.API.Send(http.MethodPost, console.Path("v1", "webhooks", id, "rotate-secret"), body, &made); f.Failed(err) {
		h, err := read(p, "secret")
		if err != nil {
			return err
		}
		return p.ShowInvalid("secret.html", h.title("secret"), secretView{head: h, Overlaps: overlaps(), Form: f, Until: h.Webhook.PreviousSecretExpiresAt}, f)
	} else if err != nil {
		return err
	}
	v := newOnce(p, now, made.Secret)
	v.Stored = at(id, "secret")
	if ends := made.PreviousSecretExpiresAt; web.Time(ends).After(p.Now()) {
		v.Until = ends
	}
	return p.Show("once.html", "The new secret", v)
}

func newOnce(p *console.Page, w webhook, secret string) onceView {
	v := onceView{Webhook: w, Name: w.short(), Secret: secret, MaySend: maySend(p) && w.Delivery != domain.DeliveryPull}
	v.Snippets, v.Public = w.snippetsFor()
	for _, t := range w.Events {
		v.Types = append(v.Types, console.Option{Value: string(t), Label: string(t)})
	}
	return v
}
