package policy

import (
	"net/http"
	"strings"

	"waybill.dev/shared/problem"
)

// tokenError refuses a caller without a valid access token. The reason goes only to the log of the request.
type tokenError struct {
	reason string
	shown  bool // the request has a token
}

// Error implements error.
func (e *tokenError) Error() string { return "access token: " + e.reason }

// Unwrap returns the problem that the caller gets, in the form of RFC 6750.
func (e *tokenError) Unwrap() error {
	p := problem.New(problem.Unauthenticated, "A valid access token is required, as Authorization: Bearer.")
	if e.shown {
		p.Challenge = `Bearer error="invalid_token"`
	}
	return p
}

// Entry implements route.Told.
func (e *tokenError) Entry() (message string, attributes []any) {
	return "The access token was refused: " + e.reason + ".", nil
}

// bearer returns the token that a request carries. False: there is none, or more than one.
func bearer(header http.Header) (token string, ok bool) {
	values := header.Values("Authorization")
	if len(values) != 1 {
		return "", false
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	token = strings.Trim(token, " ")
	return token, strings.EqualFold(scheme, "Bearer") && token != ""
}
