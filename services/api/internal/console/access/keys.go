package access

import (
	"net/http"
	"net/url"
	"strconv"

	"waybill.dev/services/api/internal/console"
	"waybill.dev/services/api/internal/families/keys"
	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/shared/domain"
)

// madeKeys is the data of the only page that shows keys in full: it is the answer to the form that
// made them, and no link, Back or reload leads to it.
type madeKeys struct {
	Place place
	What  string
	Keys  []keys.Key
	Next  string
}

// keyBody is the body of a request to make or change a key.
type keyBody struct {
	Description string  `json:"description,omitzero"`
	ExpiresOn   *string `json:"expiresOn,omitzero"`
}

type keyForm struct {
	Place place
	Form  *console.Form
	Ends  []console.Option
}

// most is how many keys the form makes at a time: as many as a person can copy.
const most = 100

func newKey(p *console.Page) error {
	l := at(p)
	if ok, err := writable(p, l, nil); !ok {
		return err
	}
	p.CLI("keys create " + l.Bucket + " " + l.Consumer + " --expires 720h")
	return p.Show("key-form.html", "New key", keyForm{l, console.NewForm(url.Values{"count": {"1"}, "ends": {"2160h"}}), lives("Never")})
}

func createKey(p *console.Page) error {
	l := at(p)
	values, err := p.Form()
	if err != nil {
		return err
	}
	f := keyForm{l, console.NewForm(values), lives("Never")}
	body := keyBody{values.Get("description"), readEnd(values, p.Now())}
	count := 1
	if text := values.Get("count"); text != "" {
		if count, err = strconv.Atoi(text); err != nil || count < 1 || count > most {
			f.Form.Refuse("count", "must be a number from 1 to "+number(most))
			return p.ShowInvalid("key-form.html", "New key", f, f.Form)
		}
	}
	var fresh []keys.Key
	if count == 1 {
		fresh = make([]keys.Key, 1)
		err = p.API.Send(http.MethodPost, l.api(p, "keys"), body, &fresh[0])
	} else {
		several := make([]keyBody, count)
		for i := range several {
			several[i] = body
		}
		var answer web.Listing[keys.Key]
		err = p.API.Send(http.MethodPost, l.api(p, "keys", "$bulk"), several, &answer)
		fresh = answer.Data
	}
	if f.Form.Failed(err) {
		return p.ShowInvalid("key-form.html", "New key", f, f.Form)
	} else if err != nil {
		return err
	}
	what := "The key is there."
	if len(fresh) > 1 {
		what = number(len(fresh)) + " keys are there."
	}
	return p.Show("made.html", "New key", madeKeys{l, what, fresh, l.Path()})
}

func newRoll(p *console.Page) error {
	l := at(p)
	if ok, err := writable(p, l, nil); !ok {
		return err
	}
	p.CLI("keys roll " + l.Bucket + " " + l.Consumer + " --expires 24h")
	return p.Show("roll.html", "Roll the keys", keyForm{l, console.NewForm(url.Values{"ends": {"24h"}}), lives("At once")})
}

func roll(p *console.Page) error {
	l := at(p)
	values, err := p.Form()
	if err != nil {
		return err
	}
	f := keyForm{l, console.NewForm(values), lives("At once")}
	var fresh keys.Key
	if err := p.API.Send(http.MethodPost, l.api(p, "roll-key"), keyBody{ExpiresOn: readEnd(values, p.Now())}, &fresh); f.Form.Failed(err) {
		return p.ShowInvalid("roll.html", "Roll the keys", f, f.Form)
	} else if err != nil {
		return err
	}
	if fresh.Key == "" {
		// The answer has no key in a bucket whose keys can be shown again.
		if fresh, err = latest(p, l); err != nil {
			return err
		}
	}
	return p.Show("made.html", "New key", madeKeys{l, "The keys are rolled. This is the new one.", []keys.Key{fresh}, l.Path()})
}

// latest returns the newest key of a consumer, in full.
func latest(p *console.Page, l place) (keys.Key, error) {
	var list web.Listing[keys.Key]
	if err := p.API.Get(l.api(p, "keys"), url.Values{"limit": {"1"}}, &list); err != nil {
		return keys.Key{}, err
	}
	if list.Total > 1 {
		query := url.Values{"limit": {"1"}, "offset": {number(list.Total - 1)}}
		if err := p.API.Get(l.api(p, "keys"), query, &list); err != nil {
			return keys.Key{}, err
		}
	}
	if len(list.Data) == 0 {
		return keys.Key{}, &console.Problem{Title: "Not found", Status: http.StatusNotFound, Code: "NOT_FOUND", Detail: "The new key has been deleted already."}
	}
	var fresh keys.Key
	l.Key = list.Data[0].ID
	err := p.API.Get(l.api(p), url.Values{"key-format": {"visible"}}, &fresh)
	return fresh, err
}

type keyView struct {
	Place place
	Key   keys.Key
	Ended bool
	Own   bool
	Form  *console.Form
	Ends  []console.Option
	May   bool
}

func showKey(p *console.Page) error {
	v := keyView{Place: at(p), Ends: lives("As it is")}
	if err := p.API.Get(v.Place.api(p), nil, &v.Key); err != nil {
		return err
	}
	p.CLI("keys get " + v.Place.Bucket + " " + v.Place.Consumer + " " + v.Place.Key)
	v.Form = console.NewForm(url.Values{"description": {v.Key.Description}})
	v.complete(p)
	return p.Show("key.html", "Key "+v.Key.Key, v)
}

func (v *keyView) complete(p *console.Page) {
	v.Ended, v.Own, v.May = ended(v.Key.ExpiresOn, p.Now()), v.Key.ID == p.Session.KeyID, p.May(domain.ScopeBucketsWrite)
}

func updateKey(p *console.Page) error {
	v := keyView{Place: at(p), Ends: lives("As it is")}
	values, err := p.Form()
	if err != nil {
		return err
	}
	v.Form = console.NewForm(values)
	body := struct {
		Description string  `json:"description"`
		ExpiresOn   *string `json:"expiresOn,omitzero"`
	}{values.Get("description"), readEnd(values, p.Now())}
	if err := p.API.Send(http.MethodPatch, v.Place.api(p), body, nil); v.Form.Failed(err) {
		_ = p.API.Try(v.Place.api(p), nil, &v.Key) // if this fails, the form still has the typed values
		v.complete(p)
		return p.ShowInvalid("key.html", "Key "+v.Key.Key, v, v.Form)
	} else if err != nil {
		return err
	}
	return p.Done("The key is changed.", v.Place.Path())
}

func confirmKey(p *console.Page) error {
	l := at(p)
	var k keys.Key
	if err := p.API.Get(l.api(p), nil, &k); err != nil {
		return err
	}
	p.CLI("keys delete " + l.Bucket + " " + l.Consumer + " " + l.Key)
	effect := "Whoever uses it is refused at once, and sessions of the console that were opened with it end. It can't be undone."
	if k.ID == p.Session.KeyID {
		effect = "This is the key that you are signed in with: you will be signed out. " + effect
	}
	facts := []console.Fact{{Name: "Key", Value: k.Key}, {Name: "Id", Value: k.ID}, {Name: "Consumer", Value: l.Bucket + "/" + l.Consumer}}
	if k.Description != "" {
		facts = append(facts, console.Fact{Name: "Description", Value: k.Description})
	}
	return p.ShowConfirm(console.Confirm{
		Title: "Revoke key " + k.Key + "?", Effect: effect, Facts: facts, Verb: "Revoke the key", Danger: true, Action: l.Path("delete"), Back: l.Path(),
	})
}

func deleteKey(p *console.Page) error {
	l := at(p)
	if err := p.API.Send(http.MethodDelete, l.api(p), nil, nil); err != nil {
		return err
	}
	return p.Done("The key is revoked.", l.consumer().Path())
}
