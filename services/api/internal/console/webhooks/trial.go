package webhooks

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"waybill.dev/services/api/internal/console"
	"waybill.dev/services/api/internal/console/deliverylog"
	"waybill.dev/services/api/internal/deliveries"
	"waybill.dev/shared/domain"
)

type testView struct {
	head

	Form      *console.Form
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
	v, err := readTest(p, url.Values{})
	if err != nil {
		return err
	}
	h := v.head
	if id := p.Query("delivery"); id != "" {
		var d deliveries.Detail
		if v.None = p.API.Try(console.Path("v1", "deliveries", id), nil, &d); v.None == nil && d.Test && d.WebhookID == h.Webhook.ID {
			v.Delivery, v.Waits = &d, d.Status == domain.StatusPending || d.Status == domain.StatusRetrying
		}
	}
	return p.Show("test.html", h.title("test"), v)
}

// readTest reads what the page of tests shows besides a test, with what was typed.
func readTest(p *console.Page, typed url.Values) (testView, error) {
	h, err := read(p, "test")
	if err != nil {
		return testView{}, err
	}
	v := testView{head: h, Form: console.NewForm(typed), OneDelive: p.Has("/console/deliveries/{deliveryId}")}
	// Any type can be sent; those that the webhook is registered for come first.
	v.Types = typeOptions(h.Webhook.Events)
	if chosen := slices.IndexFunc(v.Types, func(o console.Option) bool { return o.Value == typed.Get("type") }); chosen > 0 {
		v.Types[0], v.Types[chosen] = v.Types[chosen], v.Types[0]
	}
	v.Recent, v.NoRecent = recentTests(p, h.Webhook.ID)
	p.CLI("webhooks test " + string(h.Webhook.ID))
	return v, nil
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
	body := map[string]any{}
	if t := form.Get("type"); t != "" {
		body["type"] = t
	}
	if data := strings.TrimSpace(form.Get("data")); data != "" {
		body["data"] = given(data)
	}
	var made deliveries.Tested
	err = p.API.Send(http.MethodPost, console.Path("v1", "webhooks", id, "test"), body, &made)
	if faulty := console.NewForm(form); body["data"] != nil && faulty.Failed(err) {
		v, err := readTest(p, form)
		if err != nil {
			return err
		}
		v.Form = faulty
		return p.ShowInvalid("test.html", v.title("test"), v, v.Form)
	}
	if err != nil {
		return err
	}
	return p.Redirect(at(id, "test") + "?" + url.Values{"delivery": {string(made.DeliveryID)}}.Encode())
}
