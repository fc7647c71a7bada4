// Package receiverauth defines how callbacks are authenticated at their receiver: the forms of
// authentication, and the sealed text in which one is stored. The api checks what callers give and
// writes it; the dispatcher reads and uses it.
package receiverauth

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"

	"waybill.dev/shared/domain"
)

// Type is a form of authentication.
type Type string

// The forms.
const (
	Basic  Type = "basic"  // a user name and a password in each request
	Bearer Type = "bearer" // a token in each request
	OAuth2 Type = "oauth2" // a token from a token server, for a client's id and secret
	MTLS   Type = "mtls"   // a certificate of Waybill in the TLS handshake
)

// Types returns all forms.
func Types() []Type { return []Type{Basic, Bearer, OAuth2, MTLS} }

// Auth is how callbacks of one webhook are authenticated. Only the fields of its type are set.
type Auth struct {
	Type Type

	Username string
	Password domain.Secret

	Token domain.Secret

	TokenURL     string
	ClientID     string
	ClientSecret domain.Secret
	Scope        string // empty: no scope is requested
	Audience     string // empty: no audience is requested

	Certificate string // PEM, the leaf first
	PrivateKey  domain.Secret
	CA          string // PEM of the only authorities that may issue the receiver's certificate; empty: the system's authorities
}

// storedAuth is the form in which an Auth is stored, with the names that callers use.
type storedAuth struct {
	Type         Type   `json:"type"`
	Username     string `json:"username,omitempty"`
	Password     string `json:"password,omitempty"`
	Token        string `json:"token,omitempty"`
	TokenURL     string `json:"tokenUrl,omitempty"`
	ClientID     string `json:"clientId,omitempty"`
	ClientSecret string `json:"clientSecret,omitempty"`
	Scope        string `json:"scope,omitempty"`
	Audience     string `json:"audience,omitempty"`
	Certificate  string `json:"certificate,omitempty"`
	PrivateKey   string `json:"privateKey,omitempty"`
	CA           string `json:"ca,omitempty"`
}

// Encode returns a in the form in which a webhook has it.
func (a *Auth) Encode() (domain.Secret, error) {
	text, err := json.Marshal(storedAuth{
		a.Type, a.Username, a.Password.Reveal(), a.Token.Reveal(), a.TokenURL, a.ClientID, a.ClientSecret.Reveal(), a.Scope, a.Audience,
		a.Certificate, a.PrivateKey.Reveal(), a.CA,
	})
	if err != nil {
		return "", fmt.Errorf("encode authentication: %w", err)
	}
	return domain.Secret(text), nil
}

// errStored contains nothing of the text, which is secret.
var errStored = errors.New("its auth can't be decoded")

// Decode reads the result of Encode. Its error is for a webhook's owner and contains no secret.
func Decode(text domain.Secret) (*Auth, error) {
	var s storedAuth
	if json.Unmarshal([]byte(text.Reveal()), &s) != nil {
		return nil, errStored
	}
	switch s.Type {
	case Basic, Bearer, OAuth2, MTLS:
	default:
		return nil, errStored
	}
	return &Auth{
		s.Type, s.Username, domain.Secret(s.Password), domain.Secret(s.Token), s.TokenURL, s.ClientID, domain.Secret(s.ClientSecret), s.Scope, s.Audience,
		s.Certificate, domain.Secret(s.PrivateKey), s.CA,
	}, nil
}

// UsesHeader reports whether requests have an Authorization header.
func (t Type) UsesHeader() bool { return t == Basic || t == Bearer || t == OAuth2 }

// Authorization returns the value of the header if it is the same in each request; empty: there is none.
func (a *Auth) Authorization() string {
	switch a.Type {
	case Basic:
		return BasicValue(a.Username, a.Password.Reveal())
	case Bearer:
		return BearerValue(a.Token.Reveal())
	case OAuth2, MTLS:
	}
	return ""
}

// BasicValue returns the value of the header for a name and a password (RFC 7617).
func BasicValue(name, password string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(name+":"+password))
}

// BearerValue returns the value of the header for a token (RFC 6750).
func BearerValue(token string) string { return "Bearer " + token }

// ValidToken reports whether a token can be in a header: visible ASCII without spaces.
func ValidToken(token string) bool {
	for i := range len(token) {
		if token[i] <= ' ' || token[i] > '~' {
			return false
		}
	}
	return token != ""
}
