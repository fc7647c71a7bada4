package route

import (
	"context"
	"net/http"
	"strings"

	"waybill.dev/shared/apikey"
)

// Identity is whom an access token names, among those that its issuer knows. It is nobody who has a key.
type Identity struct {
	Issuer, Subject string // no Subject: the token names nobody
	// Says are the headers by which back ends are told of the token's claims. One without a value is not sent.
	Says map[string]string
}

// Tell sets the headers that a request has of the identity. The caller's own of those names, in any spelling that a
// reader could take for them, are left out.
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
	// Issuer is who issues the tokens.
	Issuer() string
	// Scopes are those that a client may ask the issuer for.
	Scopes() []string
	// AuthenticateToken finds out for whom a token is, at the server with a path. Whoever may act for several consumers
	// names one by its account, by bucket/consumer, or by both; either may be empty. The error is a *problem.Problem,
	// wraps apikey.ErrUnauthenticated, or wraps domain.ErrUnavailable when that can't be told now.
	AuthenticateToken(ctx context.Context, token, path, account, consumer string) (apikey.Principal, error)
}

// TakesTokens is a policy that lets callers pass by access tokens.
type TakesTokens interface {
	// Issues returns who issues them, and the scopes that clients may ask for. Without an issuer, none are taken.
	Issues(runtime *Runtime) (issuer string, scopes []string)
}
