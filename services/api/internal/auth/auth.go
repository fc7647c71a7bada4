// Package auth decides who a caller is and what the caller may do.
package auth

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"slices"

	"waybill.dev/shared/apikey"
	"waybill.dev/shared/domain"
)

// Exceeds tells whether scopes hold more than the principal has: then it may neither give
// them to a consumer, nor touch the keys of one that has them.
func Exceeds(scopes []domain.Scope, of apikey.Principal) bool {
	return slices.ContainsFunc(scopes, func(s domain.Scope) bool { return !of.May(s) })
}

// Authenticator finds out whose key it is. It fails with apikey.ErrUnauthenticated, or with
// an error that wraps domain.ErrUnavailable when it can't tell now.
type Authenticator interface {
	Authenticate(ctx context.Context, key string) (apikey.Principal, error)
}

// Bounds of the bootstrap key's length.
const (
	MinBootstrapKey = 32
	MaxBootstrapKey = apikey.MaxLength
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
	if len(text) < MinBootstrapKey || len(text) > MaxBootstrapKey || !apikey.Visible(text) {
		return bootstrap{}, ErrBootstrapKey
	}
	return bootstrap(digestOf(text)), nil
}

// is compares digests in constant time, so that neither length nor content of the key can
// be found out by measuring.
func (b *bootstrap) is(d digest) bool {
	return *b != bootstrap{} && subtle.ConstantTimeCompare(d[:], b[:]) == 1
}

func (*bootstrap) principal() apikey.Principal {
	return apikey.Principal{
		Account: domain.DefaultAccount, ID: apikey.TypeBootstrap, Type: apikey.TypeBootstrap,
		Scopes: []domain.Scope{domain.ScopeAdmin},
	}
}
