package webhooks

import (
	"slices"
	"strings"
	"time"

	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/egress"
	"waybill.dev/shared/input"
	"waybill.dev/shared/problem"
	"waybill.dev/shared/receiverauth"
)

// Bounds of the fields of auth, in characters.
const (
	maxAuthName   = 256
	maxAuthSecret = 1024
	maxAuthToken  = 4096
	maxAuthScope  = 1024
	maxAuthPEM    = 16 << 10
)

const authField = "auth"

// auth reads the authentication of callbacks. It is set as a whole, and never shown.
func (w *webhookForm) auth() {
	if w.Null(authField) {
		w.Add(func(hook *domain.Webhook) { hook.Auth = "" })
		return
	}
	form, ok := w.Inner(authField)
	if !ok {
		return
	}
	form.Require("type")
	of := &receiverauth.Auth{}
	text, _ := form.Text("type", 0, maxAuthName)
	of.Type = receiverauth.Type(text)
	in := &authForm{Form: form, egress: w.egress}
	switch of.Type {
	case receiverauth.Basic:
		in.basic(of)
	case receiverauth.Bearer:
		in.bearer(of)
	case receiverauth.OAuth2:
		in.oauth2(of)
	case receiverauth.MTLS:
		in.mtls(of, time.Now())
	default:
		form.Ignore("username", "password", "token", "tokenUrl", "clientId", "clientSecret", "scope", "audience", "certificate", "privateKey", "ca")
		if form.Has("type") {
			form.Fault(web.MustBeOneOf(receiverauth.Types()), "type")
		}
		return
	}
	kept, err := of.Encode()
	if err != nil {
		form.Fault("can't be kept")
		return
	}
	w.Add(func(hook *domain.Webhook) { hook.Auth = kept })
}

// authForm reads the fields of one type of authentication.
type authForm struct {
	*input.Form

	egress Egress
}

func (f *authForm) basic(of *receiverauth.Auth) {
	f.Require("username", "password")
	of.Username = f.plain("username", maxAuthName)
	if strings.Contains(of.Username, ":") {
		f.Fault("must not have a colon: it divides name and password", "username")
	}
	of.Password = f.hidden("password", maxAuthSecret)
}

func (f *authForm) bearer(of *receiverauth.Auth) {
	f.Require("token")
	token, ok := f.Text("token", 1, maxAuthToken)
	if ok && !receiverauth.ValidToken(token) {
		f.Fault("must have visible ASCII characters and no spaces", "token")
	}
	of.Token = domain.Secret(token)
}

func (f *authForm) oauth2(of *receiverauth.Auth) {
	f.Require("tokenUrl", "clientId", "clientSecret")
	if address, ok := f.Text("tokenUrl", 1, domain.MaxURLLength); ok {
		of.TokenURL = egress.Escape(address)
		if err := f.egress.CheckURL(of.TokenURL); err != nil {
			f.Fault(err.Error(), "tokenUrl")
		}
	}
	of.ClientID = f.plain("clientId", maxAuthName)
	of.ClientSecret = f.hidden("clientSecret", maxAuthSecret)
	of.Scope = f.optional("scope")
	of.Audience = f.optional("audience")
}

// mtls checks that the certificate can be used in a handshake: that its key fits, and that it is
// valid now.
func (f *authForm) mtls(of *receiverauth.Auth, now time.Time) {
	f.Require("certificate", "privateKey")
	var given, keyed bool
	of.Certificate, given = f.Text("certificate", 1, maxAuthPEM)
	key, keyed := f.Text("privateKey", 1, maxAuthPEM)
	of.PrivateKey = domain.Secret(key)
	if given {
		chain, err := receiverauth.Certificates(of.Certificate)
		switch {
		case err != nil:
			f.Fault(err.Error(), "certificate")
			given = false
		case now.After(chain[0].NotAfter):
			f.Fault("has expired", "certificate")
		}
	}
	if given && keyed {
		if _, err := of.KeyPair(); err != nil {
			f.Fault(err.Error(), "privateKey")
		}
	}
	if f.Null("ca") {
		return
	}
	if ca, ok := f.Text("ca", 1, maxAuthPEM); ok {
		of.CA = ca
		if _, err := receiverauth.Certificates(ca); err != nil {
			f.Fault(err.Error(), "ca")
		}
	}
}

// plain reads a text without control characters.
func (f *authForm) plain(name string, most int) string {
	text, ok := f.Text(name, 1, most)
	if ok && strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		f.Fault("must not have control characters", name)
		return ""
	}
	return text
}

func (f *authForm) hidden(name string, most int) domain.Secret {
	return domain.Secret(f.plain(name, most))
}

// optional reads a text that may be absent, or null.
func (f *authForm) optional(name string) string {
	if f.Null(name) {
		return ""
	}
	return f.plain(name, maxAuthScope)
}

// authFaults returns the faults of a webhook's authentication in combination with its other fields.
func (w *webhookForm) authFaults(h *domain.Webhook) []problem.Fault {
	if h.Auth == "" {
		return nil
	}
	of, err := receiverauth.Decode(h.Auth)
	if err != nil {
		return nil // it was read back from the store; a form encodes what it has read
	}
	pointer := func(otherwise string) string {
		if w.Has(authField) {
			return input.Pointer(authField, "type")
		}
		return otherwise
	}
	if of.Type == receiverauth.MTLS && !strings.EqualFold(scheme(h.URL), "https") {
		return []problem.Fault{{Pointer: pointer("/url"), Detail: "mtls needs an https url"}}
	}
	own := slices.IndexFunc(h.Headers, func(header domain.Header) bool { return strings.EqualFold(header.Name, "Authorization") })
	if of.Type.UsesHeader() && own >= 0 {
		return []problem.Fault{{
			Pointer: pointer(input.Pointer("headers", h.Headers[own].Name)),
			Detail:  string(of.Type) + " sets the header Authorization, which is among the webhook's own headers, too",
		}}
	}
	return nil
}

func scheme(url string) string {
	before, _, _ := strings.Cut(url, ":")
	return before
}

// Certificate is the certificate that callbacks are sent with.
type Certificate struct {
	Subject   string  `json:"subject"`
	ExpiresAt *string `json:"expiresAt"`
}

// showAuth shows the parts of a webhook's authentication that are not secret.
func (v *Webhook) showAuth(kept domain.Secret) {
	if kept == "" {
		return
	}
	of, err := receiverauth.Decode(kept)
	if err != nil {
		return
	}
	v.AuthType = &of.Type
	if of.Type != receiverauth.MTLS {
		return
	}
	if chain, err := receiverauth.Certificates(of.Certificate); err == nil {
		v.AuthCertificate = &Certificate{strings.ToValidUTF8(chain[0].Subject.String(), "\uFFFD"), web.Stamp(chain[0].NotAfter)}
	}
}
