package route

import (
	"context"
	"net/http"
	"strings"

	"waybill.dev/shared/apikey"
)

// Identity is the user that an access token names, at its issuer. It is not the owner of a key.
type Identity struct {
	Issuer, Subject string // no Subject: the token names no user
	// Says are the headers that tell back ends the token's claims. A header without a value is not sent.
	Says map[string]string
}

// Tell sets the headers of the identity in a request. The caller's own headers with those names are removed, in any
// spelling that a reader could take for them.
func (i *Identity) Tell(r *Request) {
	if len(i.Says) == 0 {
		return
	}
	if r.Outgoing == nil {
		r.Outgoing = make(http.Header)
	}
	for name, value := range i.Says {
		prefix := strings.Map(func(c rune) rune {
			if 'a' <= c && c <= 'z' || '0' <= c && c <= '9' {
				return c
			}
			return '-'
		}, strings.ToLower(name))
		for given := range r.Header {
			if len(given) == len(name) && begins(given, prefix) {
				delete(r.Header, given)
			}
		}
		r.Outgoing.Del(name)
		if value != "" {
			r.Header.Set(name, value)
			r.Outgoing.Set(name, value)
		}
	}
}

// Tokens lets people in at MCP servers by access tokens instead of keys.
type Tokens interface {
	// Issuer returns the issuer of the tokens.
	Issuer() string
	// Scopes returns the scopes that a client may ask the issuer for.
	Scopes() []string
	// AuthenticateToken returns the principal of a token at the server with a path. A user that may act for several
	// consumers names one of them by its account, by bucket/consumer, or by both; either may be empty. The error is a
	// *problem.Problem, wraps apikey.ErrUnauthenticated, or wraps domain.ErrUnavailable when the token can't be checked
	// now.
	AuthenticateToken(ctx context.Context, token, path, account, consumer string) (apikey.Principal, error)
}

// TakesTokens is a policy that lets callers pass by access tokens.
type TakesTokens interface {
	// Issues returns the issuer of the tokens, and the scopes that clients may ask for. An empty issuer means that no
	// tokens are accepted.
	Issues(runtime *Runtime) (issuer string, scopes []string)
}
