package auth

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"log/slog"

	"waybill.dev/shared/apikey"
	"waybill.dev/shared/authenticator"
	"waybill.dev/shared/domain"
)

// ErrBootstrapKey is returned for a bootstrap key of the wrong form.
var ErrBootstrapKey = errors.New("the admin key must be 32 to 256 visible ASCII characters")

// Store has the keys, and can change their hashes.
type Store interface {
	authenticator.Store
	RehashKey(ctx context.Context, keyID string, hash []byte) error
}

// Bus carries news of changes between processes.
type Bus interface {
	authenticator.Bus
	Announce(subject string, body []byte)
}

// Options of Keys; all but Bootstrap are required.
type Options struct {
	Store     Store
	Bus       Bus
	Peppers   [][]byte // the first one makes hashes, and all of them find keys
	Bootstrap domain.Secret
	Logger    *slog.Logger
}

// Keys authenticates callers by the bootstrap key and by the keys in the store.
type Keys struct {
	*authenticator.Authenticator

	bootstrap bootstrap
}

// NewKeys returns the authenticator. Notifications of changes in other processes arrive while Run runs.
func NewKeys(o Options) (*Keys, error) {
	first, err := newBootstrap(o.Bootstrap)
	if err != nil {
		return nil, err
	}
	inner, err := authenticator.New(authenticator.Options{
		Store: o.Store, Bus: o.Bus, Peppers: o.Peppers, Logger: o.Logger, Announce: o.Bus.Announce, Rehash: o.Store.RehashKey,
	})
	if err != nil {
		return nil, err
	}
	return &Keys{inner, first}, nil
}

// Authenticate finds the caller of a key.
func (k *Keys) Authenticate(ctx context.Context, key string) (apikey.Principal, error) {
	if k.bootstrap.is(key) {
		return k.bootstrap.principal(), nil
	}
	return k.Authenticator.Authenticate(ctx, key)
}

// Bootstrap returns the principal of the bootstrap key, and a proof by which Holds reports whether the key is still the
// same. ok is false when there is no bootstrap key.
func (k *Keys) Bootstrap() (p apikey.Principal, proof string, ok bool) {
	if k.bootstrap == (bootstrap{}) {
		return apikey.Principal{}, "", false
	}
	return k.bootstrap.principal(), hex.EncodeToString(k.Hashes(string(k.bootstrap[:]))[0]), true
}

// Holds reports whether a proof is of the present bootstrap key, under any pepper.
func (k *Keys) Holds(proof string) bool {
	if k.bootstrap == (bootstrap{}) {
		return false
	}
	for _, known := range k.Hashes(string(k.bootstrap[:])) {
		if subtle.ConstantTimeCompare([]byte(hex.EncodeToString(known)), []byte(proof)) == 1 {
			return true
		}
	}
	return false
}

// bootstrap is the digest of the bootstrap key, which has all rights; zero, which is no key's digest: there is none.
type bootstrap [sha256.Size]byte

func newBootstrap(key domain.Secret) (bootstrap, error) {
	text := key.Reveal()
	if text == "" {
		return bootstrap{}, nil
	}
	if !apikey.Valid(text) {
		return bootstrap{}, ErrBootstrapKey
	}
	return sha256.Sum256([]byte(text)), nil
}

// is compares digests in constant time, so that neither length nor content of the key can
// be found out by measuring.
func (b *bootstrap) is(key string) bool {
	d := sha256.Sum256([]byte(key))
	return *b != bootstrap{} && subtle.ConstantTimeCompare(d[:], b[:]) == 1
}

func (*bootstrap) principal() apikey.Principal {
	return apikey.Principal{
		Account: domain.DefaultAccount, ID: apikey.TypeBootstrap, Type: apikey.TypeBootstrap,
		Scopes: []domain.Scope{domain.ScopeAdmin},
	}
}
