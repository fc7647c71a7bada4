package events

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"waybill.dev/services/api/internal/console"
	"waybill.dev/services/api/internal/console/deliverylog"
	"waybill.dev/services/api/internal/families/sample"
	"waybill.dev/shared/domain"
)

type publishView struct {
	Form  *console.Form
	Types []console.Option
	Tabs  []console.Tab
}

// compose shows the form, with the sample of a type, or with the data of another event.
func compose(p *console.Page) error {
	kind := domain.EventType(p.Query("type"))
	if !kind.Valid() {
		kind = domain.ShipmentDelivered
	}
	values := url.Values{"type": {string(kind)}, "data": {console.Pretty(jsontext.Value(sample.Data(kind, p.Now())))}}
	if from := p.Query("from"); from != "" {
		var e event
		if p.API.Try(console.Path("v1", "events", from), nil, &e) == nil {
			values = url.Values{"type": {string(e.Type)}, "data": {console.Editable(string(e.Data))}}
		}
	}
	return p.Show("publish.html", "Publish an event", newPublishView(console.NewForm(values)))
}

func newPublishView(form *console.Form) publishView {
	v := publishView{Form: form, Types: console.Choices("", domain.EventTypes()...)[1:]}
	for _, t := range domain.EventTypes() {
		v.Tabs = append(v.Tabs, console.Tab{Label: string(t), Path: publishPath + "?" + url.Values{"type": {string(t)}}.Encode(), Current: form.Values.Get("type") == string(t)})
	}
	return v
}

// publish publishes the typed event.
func publish(p *console.Page) error {
	values, err := p.Form()
	if err != nil {
		return err
	}
	form := console.NewForm(values)
	data, ok := form.JSON("data")
	if !ok {
		return p.ShowInvalid("publish.html", "Publish an event", newPublishView(form), form)
	}
	var accepted deliverylog.Accepted
	err = p.API.Send(http.MethodPost, "/v1/events", struct {
		ID   string         `json:"id,omitzero"`
		Type string         `json:"type"`
		Data jsontext.Value `json:"data"`
	}{strings.TrimSpace(values.Get("id")), values.Get("type"), data}, &accepted)
	if form.Failed(err) {
		return p.ShowInvalid("publish.html", "Publish an event", newPublishView(form), form)
	}
	if err != nil {
		return err
	}
	if len(accepted.Events) != 1 {
		return p.Done("The event is accepted.", listPath)
	}
	one := accepted.Events[0]
	message := "The event is accepted."
	if one.Duplicate {
		message = "An event with this id was accepted before. It is not delivered again."
	}
	return p.Done(message, console.Path("console", "events", one.ID))
}
