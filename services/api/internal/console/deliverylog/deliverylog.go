// Package deliverylog reads data of the delivery log through the API, for several groups of pages.
package deliverylog

import (
	"cmp"
	"net/url"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"waybill.dev/services/api/internal/console"
	"waybill.dev/services/api/internal/families/deliveries"
	"waybill.dev/services/api/internal/families/webhooks"
	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/shared/domain"
)

// Event is an event as the API shows it.
type Event struct {
	ID         string           `json:"id"`
	Type       domain.EventType `json:"type"`
	Timestamp  string           `json:"timestamp"`
	Source     string           `json:"source"`
	ReceivedAt string           `json:"receivedAt"`
	Data       jsontext.Value   `json:"data"`
}

// Accepted is the answer to a publication.
type Accepted struct {
	Events []struct {
		ID        string `json:"id"`
		Duplicate bool   `json:"duplicate"`
	} `json:"events"`
}

// Shipment returns the id of the event's shipment.
func (e Event) Shipment() string {
	var data struct {
		ShipmentID string `json:"shipmentId"`
	}
	_ = json.Unmarshal(e.Data, &data) // an alert has no shipment
	return data.ShipmentID
}

// Page is a page of deliveries.
type Page = web.CursorPage[deliveries.Delivery]

// Webhook is a webhook as lists of other things name it.
type Webhook struct{ webhooks.Webhook }

// Webhooks are the first MaxWebhooks webhooks of the account, in the order of their registration.
type Webhooks []Webhook

// MaxWebhooks is how many webhooks are read.
const MaxWebhooks = 1000

// ReadWebhooks reads the webhooks. For a key that may not read webhooks, the list is empty, and the
// problem says so.
func ReadWebhooks(p *console.Page) (Webhooks, *console.Problem) {
	var list Webhooks
	problem := p.API.Try("/v1/webhooks", url.Values{"limit": {"1000"}}, &list)
	return list[:min(len(list), MaxWebhooks)], problem
}

// Of returns the webhook with an id; its URL is empty when the webhook is not known.
func (w Webhooks) Of(id domain.WebhookID) Webhook {
	for _, one := range w {
		if one.ID == id {
			return one
		}
	}
	return Webhook{webhooks.Webhook{ID: id}}
}

// Name returns the name of a webhook in lists: its description, or else its address.
func (w Webhook) Name() string { return cmp.Or(w.Description, w.Address()) }

// Address returns the webhook's address without the scheme, or its id.
func (w Webhook) Address() string {
	if w.URL == nil {
		return string(w.ID)
	}
	_, rest, _ := strings.Cut(*w.URL, "://")
	return strings.TrimSuffix(rest, "/")
}

// Beside returns what stands beside the name of a webhook: its address, if the name is another.
func (w Webhook) Beside() string {
	if w.Description == "" {
		return ""
	}
	return w.Address()
}

// Options returns the webhooks as options of a field, always including the chosen one.
func (w Webhooks) Options(chosen string) []console.Option {
	list := []console.Option{{Value: "", Label: "any"}}
	known := chosen == ""
	for _, one := range w {
		list = append(list, console.Option{Value: string(one.ID), Label: console.Visible(strings.TrimPrefix(one.Description+" · "+one.Address(), " · "))})
		known = known || string(one.ID) == chosen
	}
	if !known {
		list = append(list, console.Option{Value: chosen, Label: console.Visible(chosen)})
	}
	return list
}

// Body returns the body of an event's callbacks, byte for byte: the members up to data of the event
// as the API shows it. Ok is false when event is not valid.
func Body(event []byte) (body []byte, ok bool) {
	decoder := jsontext.NewDecoder(strings.NewReader(string(event)), jsontext.AllowDuplicateNames(true))
	if token, err := decoder.ReadToken(); err != nil || token.Kind() != '{' {
		return nil, false
	}
	for {
		name, err := decoder.ReadToken()
		if err != nil || name.Kind() != '"' {
			return nil, false
		}
		last := name.String() == "data"
		if decoder.SkipValue() != nil {
			return nil, false
		}
		if last {
			return append(append([]byte(nil), event[:decoder.InputOffset()]...), '}'), true
		}
	}
}

// MaxShown bounds, in bytes, how much of a body a page shows; one event may have 256 KiB.
const MaxShown = 48 << 10

// Cut returns the beginning of a long text, and whether it was cut.
func Cut(text string) (beginning string, cut bool) {
	if len(text) <= MaxShown {
		return text, false
	}
	return strings.ToValidUTF8(text[:MaxShown], ""), true
}
