package webhooks

import (
	"maps"
	"net/url"
	"strings"

	"waybill.dev/services/api/internal/console"
	"waybill.dev/services/api/internal/families/webhooks"
	"waybill.dev/shared/receiverauth"
)

// authNone is the choice that removes the authentication.
const authNone = "none"

// authView describes how callbacks are authenticated, and the alternatives.
type authView struct {
	Name        string // empty: not authenticated
	Certificate *webhooks.Certificate
	Options     []console.Option
}

func (w *webhook) auth() authView {
	v := authView{Certificate: w.AuthCertificate, Options: []console.Option{{Value: "", Label: "None"}}}
	if w.AuthType != nil {
		v.Name = authName(*w.AuthType)
		v.Options = []console.Option{{Value: "", Label: "As it is: " + v.Name}, {Value: authNone, Label: "Remove it"}}
	}
	for _, t := range receiverauth.Types() {
		name := authName(t)
		v.Options = append(v.Options, console.Option{Value: string(t), Label: strings.ToUpper(name[:1]) + name[1:]})
	}
	return v
}

func authName(t receiverauth.Type) string {
	switch t {
	case receiverauth.Basic:
		return "user name and password"
	case receiverauth.Bearer:
		return "token"
	case receiverauth.OAuth2:
		return "OAuth 2.0 client credentials"
	case receiverauth.MTLS:
		return "client certificate (mTLS)"
	}
	return string(t)
}

// authFields returns the fields of a type, and whether they are secret.
func authFields(t receiverauth.Type) map[string]bool {
	switch t {
	case receiverauth.Basic:
		return map[string]bool{"username": false, "password": true}
	case receiverauth.Bearer:
		return map[string]bool{"token": true}
	case receiverauth.OAuth2:
		return map[string]bool{"tokenUrl": false, "clientId": false, "clientSecret": true, "scope": false, "audience": false}
	case receiverauth.MTLS:
		return map[string]bool{"certificate": false, "privateKey": true, "ca": false}
	}
	return nil
}

// authOf copies the authentication in a form to a request's body. Empty fields are left out: the
// API reports required ones.
func authOf(form url.Values, body map[string]any) {
	switch chosen := form.Get("auth/type"); chosen {
	case "":
	case authNone:
		body["auth"] = nil
	default:
		auth := map[string]string{"type": chosen}
		for name, secret := range authFields(receiverauth.Type(chosen)) {
			text := form.Get("auth/" + name)
			if !secret {
				text = strings.TrimSpace(text)
			}
			if text != "" {
				auth[name] = text
			}
		}
		body["auth"] = auth
	}
}

// withoutSecrets returns a form without secret values, so that it can be shown again.
func withoutSecrets(form url.Values) url.Values {
	shown := maps.Clone(form)
	for _, t := range receiverauth.Types() {
		for name, secret := range authFields(t) {
			if secret {
				shown.Del("auth/" + name)
			}
		}
	}
	return shown
}
