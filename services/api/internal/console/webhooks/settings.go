package webhooks

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"waybill.dev/services/api/internal/console"
	"waybill.dev/services/api/internal/families/webhooks"
	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/services/api/internal/spec"
	"waybill.dev/shared/domain"
)

// choice is an event type in a form.
type choice struct {
	Name      domain.EventType
	On        bool
	Known     bool // the volume is known
	Yesterday int64
}

func choices(on []domain.EventType) []choice {
	var list []choice
	for _, name := range domain.WebhookTypes() {
		list = append(list, choice{Name: name, On: slices.Contains(on, name)})
	}
	return list
}

type settingsView struct {
	head

	Form      *console.Form
	Types     []choice
	Signings  []console.Option
	Orderings []console.Option
	Modes     []console.Option
	// Dropped says that the form asks to drop the headers.
	Dropped bool
	// Trial is the effect of the form's filter on the last events; nil: the filter was not tried.
	Trial *webhooks.Trial
}

func showSettings(p *console.Page) error {
	h, err := read(p, "settings")
	if err != nil {
		return err
	}
	values, err := h.Webhook.values()
	if err != nil {
		return err
	}
	v := settingsView{head: h, Form: console.NewForm(values), Types: choices(h.Webhook.Events), Signings: signings(), Orderings: orderings(), Modes: modes()}
	return p.Show("settings.html", h.title("settings"), v)
}

// elsewhere returns the fields of a change that have no field of the same name in the form, with the part of
// the page that has them.
func elsewhere() map[string]string {
	return map[string]string{
		"active": "buttons of each page", "events": "a list of boxes", "headers": "lines, which start empty", "auth": "fields of its own",
	}
}

// values returns a webhook's settings as values of the form.
func (w *webhook) values() (url.Values, error) {
	fields, err := spec.Fields(changes)
	values := url.Values{"events": names[domain.EventType, string](w.Events)}
	for _, field := range fields {
		if elsewhere()[field.Name] == "" {
			values.Set(field.Name, setting{field, w.given[field.Name]}.text())
		}
	}
	return values, err
}

// orderings returns the choices for ordering.
func orderings() []console.Option {
	return []console.Option{
		{Value: string(domain.OrderingNone), Label: "as soon as each can"}, {Value: string(domain.OrderingShipment), Label: "one after the other for each shipment"},
	}
}

// modes returns the choices of how events reach a receiver.
func modes() []console.Option {
	return []console.Option{
		{Value: string(domain.DeliveryPush), Label: "Waybill posts them to the address"},
		{Value: string(domain.DeliveryPull), Label: "the receiver reads the feed, and nothing is sent"},
	}
}

func save(p *console.Page) error {
	form, err := p.Form()
	if err != nil {
		return err
	}
	h, err := read(p, "settings")
	if err != nil {
		return err
	}
	before, err := h.Webhook.values()
	if err != nil {
		return err
	}
	body, err := changed(form, before)
	if err != nil {
		return err
	}
	v := settingsView{head: h, Form: console.NewForm(withoutSecrets(form)), Types: choices(names[string, domain.EventType](form["events"])), Signings: signings(), Orderings: orderings(), Modes: modes(), Dropped: form.Has("dropHeaders")}
	if form.Has("try") {
		return try(p, v, form.Get("filter"))
	}
	path := at(p.Param("webhookId"), "settings")
	if len(body) == 0 && v.MayWrite {
		return p.Done("Nothing was changed.", path)
	}
	if err := p.API.Send(http.MethodPatch, console.Path("v1", "webhooks", p.Param("webhookId")), body, nil); v.Form.Failed(err) {
		return p.ShowInvalid("settings.html", h.title("settings"), v, v.Form)
	} else if err != nil {
		return err
	}
	return p.Done("The settings are saved.", path)
}

// changed returns the members of a form that differ from before. Invalid values are sent as they are, and the
// API reports the faults.
func changed(form, before url.Values) (map[string]any, error) {
	body := map[string]any{}
	if !slices.Equal(slices.Sorted(slices.Values(form["events"])), slices.Sorted(slices.Values(before["events"]))) {
		body["events"] = append([]string{}, form["events"]...)
	}
	fields, err := spec.Fields(changes)
	for _, field := range fields {
		if name := field.Name; elsewhere()[name] == "" && form.Has(name) && form.Get(name) != before.Get(name) {
			body[name] = typed(field.Types, strings.TrimSpace(form.Get(name)))
		}
	}
	if form.Has("dropHeaders") {
		body["headers"] = map[string]string{}
	} else if lines := headers(form.Get("headers")); len(lines) > 0 {
		body["headers"] = lines
	}
	authOf(form, body)
	return body, err
}

// typed returns the value of a field's text, by the types that the field may have.
func typed(types []string, text string) any {
	is := func(kind string) bool { return slices.Contains(types, kind) }
	switch {
	case text == "" && is("null"):
		return nil
	case is("array"):
		return numbers(text)
	case is("object"):
		return given(text)
	case is("string"):
		return text
	}
	return number(text)
}

// number returns the number in a text, or the text itself.
func number(text string) any {
	if value := jsontext.Value(text); value.IsValid() && value.Kind() == '0' {
		return value
	}
	return text
}

// numbers returns the numbers of a list.
func numbers(text string) []any {
	list := []any{}
	for part := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == ',' || r == ' ' || r == '\n' || r == '\r' || r == '\t' }) {
		list = append(list, number(part))
	}
	return list
}

// headers reads lines with a name and a value, separated by a colon.
func headers(text string) map[string]string {
	list := map[string]string{}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name = strings.TrimSpace(name); name != "" || value != "" {
			list[name] = strings.TrimSpace(value)
		}
	}
	return list
}

func activate(p *console.Page) error {
	return setActive(p, true, "The webhook is active. What was held goes out.")
}

func pause(p *console.Page) error {
	return setActive(p, false, "The webhook is paused. Its events are held until it is active again.")
}

func askPause(p *console.Page) error {
	h, err := read(p, "health")
	if err != nil {
		return err
	}
	return p.ShowConfirm(console.Confirm{
		Title: "Pause this webhook?", Effect: "Its events are held until it is active again.", Facts: h.facts(),
		Verb: "Pause the webhook", Action: at(h.Webhook.ID, "pause"), Back: at(h.Webhook.ID),
	})
}

// facts describes the webhook on pages that ask before an action.
func (h *head) facts() []console.Fact {
	w := &h.Webhook
	return []console.Fact{
		{Name: "Address", Value: web.Value(w.URL)}, {Name: "Webhook", Value: string(w.ID)}, {Name: "Types", Value: strings.Join(names[domain.EventType, string](w.Events), ", ")},
	}
}

func setActive(p *console.Page, active bool, done string) error {
	id := p.Param("webhookId")
	if err := p.API.Send(http.MethodPatch, console.Path("v1", "webhooks", id), map[string]bool{"active": active}, nil); err != nil {
		return err
	}
	return p.Done(done, at(id))
}

func askDelete(p *console.Page) error {
	h, err := read(p, "settings")
	if err != nil {
		return err
	}
	id := h.Webhook.ID
	return p.ShowConfirm(console.Confirm{
		Title:  "Delete this webhook?",
		Effect: "No callback is sent to it any more. What is not delivered yet fails, and can't be sent again. Its delivery log stays.",
		Facts:  h.facts(),
		Verb:   "Delete the webhook", Danger: true, Action: at(id, "delete"), Back: at(id, "settings"),
	})
}

func remove(p *console.Page) error {
	if err := p.API.Send(http.MethodDelete, console.Path("v1", "webhooks", p.Param("webhookId")), nil, nil); err != nil {
		return err
	}
	return p.Done("The webhook is deleted.", root)
}
