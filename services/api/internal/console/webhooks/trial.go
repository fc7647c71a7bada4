package webhooks

import (
	"net/http"
	"net/url"

	"waybill.dev/services/api/internal/console"
	"waybill.dev/services/api/internal/console/deliverylog"
	"waybill.dev/services/api/internal/deliveries"
	"waybill.dev/shared/domain"
)

type testView struct {
	head

	Types     []console.Option
	Delivery  *deliveries.Detail // that is watched
	None      *console.Problem
	Waits     bool // it is still to be delivered
	Recent    []deliveries.Delivery
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
		var d deliveries.Detail
		if v.None = p.API.Try(console.Path("v1", "deliveries", id), nil, &d); v.None == nil && d.Test && d.WebhookID == h.Webhook.ID {
			v.Delivery, v.Waits = &d, d.Status == domain.StatusPending || d.Status == domain.StatusRetrying
		}
	}
	v.Recent, v.NoRecent = recentTests(p, h.Webhook.ID)
	p.CLI("webhooks test " + string(h.Webhook.ID))
	return p.Show("test.html", h.title("test"), v)
}

func typeOptions(first []domain.EventType) []console.Option {
	var list, rest []console.Option
	for _, c := range choices(first) {
		if c.On {
			list = append(list, console.Option{Value: string(c.Name), Label: string(c.Name)})
		} else {
			rest = append(rest, console.Option{Value: string(c.Name), Label: string(c.Name) + " (not registered for)"})
		}
	}
	return append(list, rest...)
}

// recentTests are the latest tests of a webhook.
func recentTests(p *console.Page, id domain.WebhookID) ([]deliveries.Delivery, *console.Problem) {
	var answer deliverylog.Page
	query := url.Values{"webhookId": {string(id)}, "test": {"true"}, "limit": {"5"}}
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
	var made deliveries.Tested
	if err := p.API.Send(http.MethodPost, console.Path("v1", "webhooks", id, "test"), body, &made); err != nil {
		return err
	}
	return p.Redirect(at(id, "test") + "?" + url.Values{"delivery": {string(made.DeliveryID)}}.Encode())
}
