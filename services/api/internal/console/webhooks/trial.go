package webhooks

import (
	"net/http"
	"net/url"

	"waybill.dev/services/api/internal/console"
	"waybill.dev/shared/domain"
)

type testView struct {
	head

	Types     []console.Option
	Delivery  *delivery // that is watched
	None      *console.Problem
	Waits     bool // it is still to be delivered
	Recent    []delivery
	NoRecent  *console.Problem
	OneDelive bool
}

func maySend(p *console.Page) bool { return p.May(domain.ScopeEventsWrite) }

func showTest(p *console.Page) error {
	h, err := read(p, "test")
	if err != nil {
		return err
	}
	v := testView{head: h, OneDelive: p.Has("/console/deliveries/{deliveryId}")}
	// Any type can be sent; those that the webhook is registered for come first.
	v.Types = append(v.Types, typeOptions(h.Webhook.Events)...)
	if id := p.Query("delivery"); id != "" {
		var d delivery
		if v.None = p.API.Try(console.Path("v1", "deliveries", id), nil, &d); v.None == nil && d.Test && d.WebhookID == h.Webhook.ID {
			v.Delivery, v.Waits = &d, d.Status == string(domain.StatusPending) || d.Status == string(domain.StatusRetrying)
		}
	}
	v.Recent, v.NoRecent = recentTests(p, h.Webhook.ID)
	p.CLI("webhooks test " + h.Webhook.ID)
	return p.Show("test.html", h.title("test"), v)
}

func typeOptions(first []string) []console.Option {
	var list, rest []console.Option
	for _, c := range choices(first) {
		if c.On {
			list = append(list, console.Option{Value: c.Name, Label: c.Name})
		} else {
			rest = append(rest, console.Option{Value: c.Name, Label: c.Name + " (not registered for)"})
		}
	}
	return append(list, rest...)
}

// recentTests are the latest tests of a webhook.
func recentTests(p *console.Page, id string) ([]delivery, *console.Problem) {
	var answer struct {
		Data []delivery `json:"data"`
	}
	query := url.Values{"webhookId": {id}, "test": {"true"}, "limit": {"5"}}
	if problem := p.API.Try("/v1/deliveries", query, &answer); problem != nil {
		return nil, problem
	}
	return answer.Data, nil
}

func sendTest(p *console.Page) error {
	form, err := p.Form()
	if err != nil {
		return err
	}
	id := p.Param("webhookId")
	body := map[string]string{}
	if t := form.Get("type"); t != "" {
		body["type"] = t
	}
	var made struct {
		DeliveryID string `json:"deliveryId"`
	}
	if err := p.API.Send(http.MethodPost, console.Path("v1", "webhooks", id, "test"), body, &made); err != nil {
		return err
	}
	return p.Redirect(at(id, "test") + "?" + url.Values{"delivery": {made.DeliveryID}}.Encode())
}
