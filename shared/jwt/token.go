package jwt

import (
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Token is the content of a verified token.
type Token struct {
	Subject string // empty: not given
	Scopes  []string

	issuer       string
	audience     []string
	ends, begins *float64 // in seconds since 1970; nil: not given
	claims       map[string]jsontext.Value
}

// Claim returns a claim as it is in the token; nil: there is none.
func (t *Token) Claim(name string) jsontext.Value { return t.claims[name] }

// Text returns a claim that is a text; empty: there is none.
func (t *Token) Text(name string) string {
	var text string
	if value := t.claims[name]; value.Kind() != '"' || json.Unmarshal(value, &text) != nil {
		return ""
	}
	return text
}

// readToken reads claims. A name may occur only once.
func readToken(payload []byte) (*Token, error) {
	t := &Token{}
	if err := json.Unmarshal(payload, &t.claims); err != nil {
		return nil, errClaims
	}
	t.issuer, t.Subject = t.Text("iss"), t.Text("sub")
	var ok bool
	if t.audience, ok = texts(t.claims["aud"]); !ok {
		return nil, errClaims
	}
	for name, to := range map[string]**float64{"exp": &t.ends, "nbf": &t.begins} {
		value := t.claims[name]
		if value == nil {
			continue
		}
		var seconds float64
		if value.Kind() != '0' || json.Unmarshal(value, &seconds) != nil {
			return nil, errClaims
		}
		*to = &seconds
	}
	for _, name := range []string{"scope", "scp"} { // scope is from RFC 8693; some issuers call it scp
		of, _ := texts(t.claims[name])
		for _, text := range of {
			t.Scopes = append(t.Scopes, strings.Fields(text)...)
		}
	}
	return t, nil
}

// texts reads one text or a list of texts; a missing value is an empty list.
func texts(value jsontext.Value) (list []string, ok bool) {
	switch {
	case value == nil:
		return nil, true
	case value.Kind() == '"':
		list = make([]string, 1)
		return list, json.Unmarshal(value, &list[0]) == nil
	}
	return list, json.Unmarshal(value, &list) == nil
}
