// Package receiverauth is how callbacks are authenticated at their receiver: the forms that
// there are, and how one is kept as text, which is sealed. The api checks what callers give
// and writes it; the dispatcher reads and uses it.
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
	OAuth2 Type = "oauth2" // a token that a token server gives for a client's id and secret
	MTLS   Type = "mtls"   // a certificate of ours in the TLS handshake
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
	Scope        string // empty: none is asked for
	Audience     string // likewise

	Certificate string // PEM, the leaf first
	PrivateKey  domain.Secret
	CA          string // PEM of whom alone the receiver's certificate may come from; empty: the system's authorities
}

// stored is an Auth as it is kept: with the names that callers know it by.
type stored struct {
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

// Encode returns a as it is kept in a webhook.
func (a *Auth) Encode() (domain.Secret, error) {
	text, err := json.Marshal(stored{
		a.Type, a.Username, a.Password.Reveal(), a.Token.Reveal(), a.TokenURL, a.ClientID, a.ClientSecret.Reveal(), a.Scope, a.Audience,
		a.Certificate, a.PrivateKey.Reveal(), a.CA,
	})
	if err != nil {
		return "", fmt.Errorf("encode authentication: %w", err)
	}
	return domain.Secret(text), nil
}

// errStored has nothing of the text, which is secret.
var errStored = errors.New("its auth can't be decoded")

// Decode reads what Encode made. Its error is for a webhook's owner and has no secret.
func Decode(text domain.Secret) (*Auth, error) {
	var s stored
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

// UsesHeader reports whether requests carry an Authorization header.
func (t Type) UsesHeader() bool { return t == Basic || t == Bearer || t == OAuth2 }

// Authorization returns the header's value that is the same in each request; empty: there is
// none.
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

// BasicValue is the header's value for a name and a password (RFC 7617).
func BasicValue(name, password string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(name+":"+password))
}

// BearerValue is the header's value for a token (RFC 6750).
func BearerValue(token string) string { return "Bearer " + token }

// ValidToken reports whether a token can stand in a header: visible ASCII without spaces.
func ValidToken(token string) bool {
	for i := range len(token) {
		if token[i] <= ' ' || token[i] > '~' {
			return false
		}
	}
	return token != ""
}
