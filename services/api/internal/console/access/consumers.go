package access

import (
	"net/http"
	"net/url"

	"github.com/go-json-experiment/json/jsontext"

	"waybill.dev/services/api/internal/console"
	"waybill.dev/services/api/internal/families/consumers"
	"waybill.dev/services/api/internal/families/keys"
	"waybill.dev/services/api/internal/families/managers"
	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/shared/domain"
)

type consumerView struct {
	Place      place
	Consumer   consumers.Consumer
	Tags       []tag
	Scopes     []scopeChoice
	Metadata   bool
	Keys       []keyLine
	KeysTotal  int
	KeysPaging console.Paging
	NoKeys     *console.Problem
	Managers   []managerLine
	More       int // managers that are not shown
	NoManagers *console.Problem
	May        bool
	Exceeds    bool // the consumer has scopes that the session's key lacks; otherwise the key could change it
}

type keyLine struct {
	keys.Key

	Path  string
	Ended bool
	Own   bool // the consumer of the session
}

type managerLine struct {
	managers.Manager

	Path string
}

// managersShown is how many managers are shown with a consumer.
const managersShown = 100

func showConsumer(p *console.Page) error {
	v := consumerView{Place: at(p)}
	if err := p.API.Get(v.Place.api(p), nil, &v.Consumer); err != nil {
		return err
	}
	p.CLI("consumers get " + v.Place.Bucket + " " + v.Place.Consumer + " --include-api-keys")
	v.Tags, v.Scopes = tagsOf(v.Consumer.Tags), scopeChoices(p, texts(v.Consumer.Scopes))
	v.Metadata = len(v.Consumer.Metadata) > len("{}")
	v.May = mayChange(p, v.Consumer.Scopes)
	v.Exceeds = !v.May && p.May(domain.ScopeBucketsWrite)
	var found web.Listing[keys.Key]
	if v.NoKeys = p.API.Try(v.Place.api(p, "keys"), page(p, few), &found); v.NoKeys == nil {
		v.KeysTotal, v.KeysPaging = found.Total, p.Offsets(found.Offset, len(found.Data), found.Total)
		for _, k := range found.Data {
			line := v.Place
			line.Key = k.ID
			v.Keys = append(v.Keys, keyLine{k, line.Path(), ended(k.ExpiresOn, p.Now()), k.ID == p.Session.KeyID})
		}
	}
	var people web.Listing[managers.Manager]
	if v.NoManagers = p.API.Try(v.Place.api(p, "managers"), url.Values{"limit": {number(managersShown)}}, &people); v.NoManagers == nil {
		v.More = people.Total - len(people.Data)
		for _, m := range people.Data {
			line := v.Place
			line.Manager = m.ID
			v.Managers = append(v.Managers, managerLine{m, line.Path()})
		}
	}
	return p.Show("consumer.html", v.Consumer.Name, v)
}

// consumerForm is the form for a new consumer, or for a change of one.
type consumerForm struct {
	Place  place // without Consumer: a new one
	Form   *console.Form
	Scopes []scopeChoice
	Ends   []console.Option
	Action string
	Back   string
}

func newConsumerForm(p *console.Page, l place, values url.Values) consumerForm {
	f := consumerForm{Place: l, Form: console.NewForm(values), Scopes: scopeChoices(p, values["scopes"]), Ends: lives("Never"), Action: l.Path("edit"), Back: l.Path()}
	if l.Consumer == "" {
		f.Action = l.Path("new-consumer")
	}
	return f
}

func newConsumer(p *console.Page) error {
	l := at(p)
	if ok, err := writable(p, l, nil); !ok {
		return err
	}
	p.CLI("consumers create " + l.Bucket + " NAME --scope events:read,events:write --with-api-key")
	return p.Show("consumer-form.html", "New consumer", newConsumerForm(p, l, url.Values{"withKey": {"true"}}))
}

// consumerBody is the body of a request to make or change a consumer.
type consumerBody struct {
	Name        string            `json:"name,omitzero"`
	Description string            `json:"description"`
	Scopes      []string          `json:"scopes"`
	Tags        map[string]string `json:"tags"`
	Metadata    jsontext.Value    `json:"metadata,omitzero"`
	APIKeys     []keyBody         `json:"apiKeys,omitzero"`
}

// readConsumer reads a form; ok is false when the form is too faulty to call the API.
func readConsumer(f *consumerForm) (body consumerBody, ok bool) {
	values := f.Form.Values
	body = consumerBody{Description: values.Get("description"), Scopes: values["scopes"], Tags: parseTags(values.Get("tags"))}
	if body.Scopes == nil {
		body.Scopes = []string{}
	}
	if body.Metadata = jsontext.Value("{}"); values.Get("metadata") == "" {
		return body, true
	}
	body.Metadata, ok = f.Form.JSON("metadata")
	return body, ok
}

func createConsumer(p *console.Page) error {
	l := at(p)
	values, err := p.Form()
	if err != nil {
		return err
	}
	f := newConsumerForm(p, l, values)
	body, ok := readConsumer(&f)
	if !ok {
		return p.ShowInvalid("consumer-form.html", "New consumer", f, f.Form)
	}
	body.Name = values.Get("name")
	if values.Get("withKey") == "true" {
		body.APIKeys = []keyBody{{ExpiresOn: readEnd(values, p.Now())}}
	}
	var answer consumers.Consumer
	if err := p.API.Send(http.MethodPost, l.api(p, "consumers"), body, &answer); f.Form.Failed(err) {
		return p.ShowInvalid("consumer-form.html", "New consumer", f, f.Form)
	} else if err != nil {
		return err
	}
	l.Consumer = answer.Name
	if answer.APIKeys == nil {
		return p.Done("The consumer is there. It has no key yet.", l.Path())
	}
	return p.Show("made.html", "New key", madeKeys{Place: l, What: "Consumer " + answer.Name + " is there, with its first key.", Keys: *answer.APIKeys, Next: l.Path()})
}

func editConsumer(p *console.Page) error {
	l := at(p)
	var c consumers.Consumer
	if ok, err := writable(p, l, &c); !ok {
		return err
	}
	p.CLI("consumers update " + l.Bucket + " " + l.Consumer + " --scope events:read")
	values := url.Values{"description": {c.Description}, "tags": {formatTags(c.Tags)}, "scopes": texts(c.Scopes)}
	if len(c.Metadata) > len("{}") {
		values.Set("metadata", console.Pretty(c.Metadata))
	}
	return p.Show("consumer-form.html", "Edit consumer", newConsumerForm(p, l, values))
}

func updateConsumer(p *console.Page) error {
	l := at(p)
	values, err := p.Form()
	if err != nil {
		return err
	}
	f := newConsumerForm(p, l, values)
	body, ok := readConsumer(&f)
	if !ok {
		return p.ShowInvalid("consumer-form.html", "Edit consumer", f, f.Form)
	}
	if err := p.API.Send(http.MethodPatch, l.api(p), body, nil); f.Form.Failed(err) {
		return p.ShowInvalid("consumer-form.html", "Edit consumer", f, f.Form)
	} else if err != nil {
		return err
	}
	return p.Done("The consumer is changed. Its keys have these scopes from now on.", l.Path())
}

func confirmConsumer(p *console.Page) error {
	l := at(p)
	var c consumers.Consumer
	if err := p.API.Get(l.api(p), nil, &c); err != nil {
		return err
	}
	facts := []console.Fact{{Name: "Consumer", Value: l.Bucket + "/" + c.Name}}
	var found web.Listing[keys.Key]
	if p.API.Try(l.api(p, "keys"), url.Values{"limit": {"1"}}, &found) == nil {
		facts = append(facts, console.Fact{Name: "Keys", Value: number(found.Total)})
	}
	p.CLI("consumers delete " + l.Bucket + " " + l.Consumer)
	return p.ShowConfirm(console.Confirm{
		Title: "Delete consumer " + c.Name + "?", Effect: "Its keys and managers go with it, at once. Whoever uses one of the keys is refused from then on, and sessions of the console that were opened with one end. It can't be undone.",
		Facts: facts, Verb: "Delete the consumer", Danger: true, Action: l.Path("delete"), Back: l.Path(),
	})
}

func deleteConsumer(p *console.Page) error {
	l := at(p)
	if err := p.API.Send(http.MethodDelete, l.api(p), nil, nil); err != nil {
		return err
	}
	return p.Done("Consumer "+l.Consumer+" is deleted, with its keys.", l.bucket().Path())
}

type managerForm struct {
	Place place
	Form  *console.Form
}

func newManager(p *console.Page) error {
	l := at(p)
	if ok, err := writable(p, l, nil); !ok {
		return err
	}
	p.CLI("managers create " + l.Bucket + " " + l.Consumer + " EMAIL --sub SUB")
	return p.Show("manager-form.html", "Invite a manager", managerForm{l, console.NewForm(url.Values{})})
}

func createManager(p *console.Page) error {
	l := at(p)
	values, err := p.Form()
	if err != nil {
		return err
	}
	form := console.NewForm(values)
	body := map[string]string{"email": values.Get("email"), "sub": values.Get("sub")}
	if err := p.API.Send(http.MethodPost, l.api(p, "managers"), body, nil); form.Failed(err) {
		return p.ShowInvalid("manager-form.html", "Invite a manager", managerForm{l, form}, form)
	} else if err != nil {
		return err
	}
	return p.Done("The manager is invited. They are asked when they sign in.", l.Path())
}

func confirmManager(p *console.Page) error {
	l := at(p)
	var m managers.Manager
	if err := p.API.Get(l.api(p), nil, &m); err != nil {
		return err
	}
	p.CLI("managers delete " + l.Bucket + " " + l.Consumer + " " + l.Manager)
	return p.ShowConfirm(console.Confirm{
		Title: "Remove manager " + m.Email + "?", Effect: "The person no longer signs in to this console for the consumer, and sessions opened so end. The consumer's keys stay.",
		Facts: []console.Fact{{Name: "Email", Value: m.Email}, {Name: "Subject", Value: m.Sub}, {Name: "Consumer", Value: l.Bucket + "/" + l.Consumer}},
		Verb:  "Remove the manager", Danger: true, Action: l.Path("delete"), Back: l.consumer().Path(),
	})
}

func deleteManager(p *console.Page) error {
	l := at(p)
	if err := p.API.Send(http.MethodDelete, l.api(p), nil, nil); err != nil {
		return err
	}
	return p.Done("The manager is removed.", l.consumer().Path())
}
