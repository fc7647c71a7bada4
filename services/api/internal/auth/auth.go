// Package auth decides who a caller is and what the caller may do.
package auth

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net/http"
	"slices"
	"strings"

	"waybill.dev/shared/domain"
)

// Principal is an authenticated caller.
type Principal struct {
	Account string
	// ID names the caller in the audit log; it is no secret.
	ID     string
	Scopes []domain.Scope
}

// May tells whether the caller has the scope.
func (p Principal) May(scope domain.Scope) bool {
	return slices.Contains(p.Scopes, domain.ScopeAdmin) || slices.Contains(p.Scopes, scope)
}

// ErrUnauthenticated is returned for a key that opens nothing; what is wrong with it is
// not told.
var ErrUnauthenticated = errors.New("not authenticated")

// Authenticator finds out whose key it is. It fails with ErrUnauthenticated, or with an
// error that wraps domain.ErrUnavailable when it can't tell now.
type Authenticator interface {
	Authenticate(ctx context.Context, key string) (Principal, error)
}

// Bounds of the bootstrap key's length.
const (
	MinBootstrapKey = 32
	MaxBootstrapKey = 256
)

// ErrBootstrapKey is returned for a bootstrap key of the wrong form.
var ErrBootstrapKey = errors.New("the admin key must be 32 to 256 visible ASCII characters")

// Bootstrap knows one key, which has all rights on the default account.
type Bootstrap struct{ sum [sha256.Size]byte }

// NewBootstrap returns the authenticator of the bootstrap key.
func NewBootstrap(key domain.Secret) (*Bootstrap, error) {
	text := key.Reveal()
	if len(text) < MinBootstrapKey || len(text) > MaxBootstrapKey || !Visible(text) {
		return nil, ErrBootstrapKey
	}
	return &Bootstrap{sum: sha256.Sum256([]byte(text))}, nil
}

// Authenticate compares hashes in constant time, so that neither length nor content of
// the key can be found out by measuring.
func (b *Bootstrap) Authenticate(_ context.Context, key string) (Principal, error) {
	sum := sha256.Sum256([]byte(key))
	if subtle.ConstantTimeCompare(sum[:], b.sum[:]) != 1 {
		return Principal{}, ErrUnauthenticated
	}
	return Principal{Account: domain.DefaultAccount, ID: "bootstrap", Scopes: []domain.Scope{domain.ScopeAdmin}}, nil
}

// Key returns the key that a request carries, as Authorization: Bearer or X-API-Key. ok is
// false when there is none, when it is malformed, and when there are two that differ.
func Key(header http.Header) (key string, ok bool) {
	bearer, apiKey := header.Values("Authorization"), header.Values("X-Api-Key")
	if len(bearer) > 1 || len(apiKey) > 1 {
		return "", false
	}
	if len(bearer) == 1 {
		scheme, token, found := strings.Cut(bearer[0], " ")
		if !found || !strings.EqualFold(scheme, "Bearer") {
			return "", false
		}
		key = strings.Trim(token, " ")
		if len(apiKey) == 1 && apiKey[0] != key {
			return "", false
		}
	} else if len(apiKey) == 1 {
		key = apiKey[0]
	}
	return key, key != "" && len(key) <= MaxBootstrapKey && Visible(key)
}

// Visible tells whether text has visible ASCII characters only.
func Visible(text string) bool {
	for i := range len(text) {
		if text[i] <= ' ' || text[i] > '~' {
			return false
		}
	}
	return true
}
