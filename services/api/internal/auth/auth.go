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

// The types of a Principal.
const (
	TypeKey       = "key"
	TypeBootstrap = "bootstrap"
)

// Principal is an authenticated caller. None of it is secret, and nobody may change it:
// all requests with one key share it.
type Principal struct {
	Account string
	// ID names the caller in the audit log: its bucket and consumer, or bootstrap.
	ID       string
	Type     string
	KeyID    string // empty for the bootstrap key, as Bucket and Consumer are
	Bucket   string
	Consumer string
	Scopes   []domain.Scope
}

// May tells whether the caller has the scope.
func (p Principal) May(scope domain.Scope) bool {
	return scope == domain.ScopeAny || slices.Contains(p.Scopes, domain.ScopeAdmin) || slices.Contains(p.Scopes, scope)
}

// Sees tells whether the caller may act on the account, as far as its scopes go. For any
// other one the answer is that of an account that does not exist. That holds for the
// bootstrap key, too: it makes accounts, and is itself of the default one.
func (p Principal) Sees(account string) bool { return p.Account == account }

// Exceeds tells whether scopes hold more than the principal has: then it may neither give
// them to a consumer, nor touch the keys of one that has them.
func Exceeds(scopes []domain.Scope, of Principal) bool {
	return slices.ContainsFunc(scopes, func(s domain.Scope) bool { return !of.May(s) })
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

// digest stands for a key where the key itself must not be.
type digest [sha256.Size]byte

func digestOf(key string) digest { return sha256.Sum256([]byte(key)) }

// bootstrap is the digest of the one key that has all rights; zero, which is none of any key:
// there is no such key.
type bootstrap digest

func newBootstrap(key domain.Secret) (bootstrap, error) {
	text := key.Reveal()
	if text == "" {
		return bootstrap{}, nil
	}
	if len(text) < MinBootstrapKey || len(text) > MaxBootstrapKey || !Visible(text) {
		return bootstrap{}, ErrBootstrapKey
	}
	return bootstrap(digestOf(text)), nil
}

// is compares digests in constant time, so that neither length nor content of the key can
// be found out by measuring.
func (b *bootstrap) is(d digest) bool {
	return *b != bootstrap{} && subtle.ConstantTimeCompare(d[:], b[:]) == 1
}

func (*bootstrap) principal() Principal {
	return Principal{
		Account: domain.DefaultAccount, ID: TypeBootstrap, Type: TypeBootstrap,
		Scopes: []domain.Scope{domain.ScopeAdmin},
	}
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
