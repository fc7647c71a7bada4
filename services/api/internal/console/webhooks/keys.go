package webhooks

import (
	"net/http"
	"net/url"

	"waybill.dev/services/api/internal/console"
	"waybill.dev/services/api/internal/families/signingkeys"
	"waybill.dev/shared/domain"
)

const keysPath = "/console/signing-keys"

type keysView struct {
	signingkeys.Keys

	Form      *console.Form
	Overlaps  []console.Option
	MayRotate bool
}

// signings returns the choices of signature versions.
func signings() []console.Option {
	return []console.Option{
		{Value: string(domain.SigningV1), Label: "its secret (v1, HMAC-SHA256)"},
		{Value: string(domain.SigningV1A), Label: "the account's key (v1a, Ed25519)"},
		{Value: string(domain.SigningBoth), Label: "both"},
	}
}

func showKeys(p *console.Page) error {
	v, err := readKeys(p, console.NewForm(url.Values{"overlapSeconds": {"86400"}}))
	if err != nil {
		return err
	}
	return p.Show("keys.html", "Signing keys", v)
}

func readKeys(p *console.Page, form *console.Form) (keysView, error) {
	v := keysView{Form: form, Overlaps: overlaps(), MayRotate: p.May(domain.ScopeAdmin)}
	err := p.API.Get("/v1/signing-keys", nil, &v.Keys)
	p.CLI("signing-keys list")
	return v, err
}

// askRotation asks before the keys of all receivers change.
func askRotation(p *console.Page) error {
	overlap, label := p.Query("overlapSeconds"), ""
	for _, o := range overlaps() {
		if o.Value == overlap {
			label = o.Label
		}
	}
	if label == "" {
		overlap, label = "86400", "24 hours"
	}
	return p.ShowConfirm(console.Confirm{
		Title:  "Make a new signing key?",
		Effect: "It signs from now on. The present key signs too until its end: receivers must have the new public key by then, or read the key set.",
		Facts:  []console.Fact{{Name: "The present key signs too for", Value: label}},
		Hidden: url.Values{"overlapSeconds": {overlap}},
		Verb:   "Make a new key", Danger: overlap == "0", Action: keysPath + "/rotate", Back: keysPath,
	})
}

func rotateKeys(p *console.Page) error {
	given, err := p.Form()
	if err != nil {
		return err
	}
	body := map[string]any{}
	if text := given.Get("overlapSeconds"); text != "" {
		body["overlapSeconds"] = number(text)
	}
	form := console.NewForm(given)
	if err := p.API.Send(http.MethodPost, "/v1/signing-keys/rotate", body, nil); form.Failed(err) {
		v, err := readKeys(p, form)
		if err != nil {
			return err
		}
		return p.ShowInvalid("keys.html", "Signing keys", v, form)
	} else if err != nil {
		return err
	}
	return p.Done("There is a new signing key.", keysPath)
}
