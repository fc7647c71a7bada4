// Package signingkeys has the Ed25519 keys of an account, with which callbacks are signed by v1a:
// their public halves, and their rotation.
package signingkeys

import (
	"context"
	"encoding/base64"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/shared/bus"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/signature"
	"waybill.dev/shared/store/auditlog"
)

const (
	path    = "/v1/signing-keys"
	setPath = "/.well-known/waybill/{account}/jwks.json"

	defaultOverlap = 86_400 // seconds
	maxOverlap     = 604_800
)

// Store keeps the keys.
type Store interface {
	SigningKeys(ctx context.Context, account string) ([]domain.SigningKey, error)
	EnsureSigningKey(ctx context.Context, account string) error
	RotateSigningKey(ctx context.Context, account string, overlap time.Duration) ([]domain.SigningKey, int64, error)
}

// Bus notifies the dispatchers of changes.
type Bus interface {
	Announce(subject string, body []byte)
}

// Routes returns the operations.
func Routes(store Store, notified Bus) []web.Route {
	h := &handlers{store: store, bus: notified, sets: newSets(store)}
	return []web.Route{
		{
			Method: http.MethodGet, Path: path, Operation: "listSigningKeys",
			Scope: domain.ScopeWebhooksRead, Handle: h.list,
		},
		{
			Method: http.MethodPost, Path: path + "/rotate", Operation: "rotateSigningKeys",
			Scope: domain.ScopeAdmin, Action: auditlog.ActionRotateSigningKeys, Handle: h.rotate,
		},
		{
			Method: http.MethodGet, Path: setPath, Operation: "getSigningKeySet",
			Handle: h.set,
		},
	}
}

type handlers struct {
	store Store
	bus   Bus
	sets  *sets
}

// Key is a key as callers see it: its public half.
type Key struct {
	ID        string  `json:"id"`
	Algorithm string  `json:"algorithm"`
	PublicKey string  `json:"publicKey"`
	JWK       jwk     `json:"jwk"`
	CreatedAt *string `json:"createdAt"`
	ExpiresAt *string `json:"expiresAt"` // null: the current key
}

// Keys are the keys of an account.
type Keys struct {
	Data    []Key  `json:"data"`
	JWKSURL string `json:"jwksUrl"`
}

// jwk is a public key by RFC 8037.
type jwk struct {
	Type      string `json:"kty"`
	Curve     string `json:"crv"`
	Algorithm string `json:"alg"`
	Use       string `json:"use"`
	ID        string `json:"kid"`
	X         string `json:"x"`
}

func viewJWK(k domain.SigningKey) jwk {
	return jwk{"OKP", "Ed25519", "EdDSA", "sig", k.ID, base64.RawURLEncoding.EncodeToString(k.Public)}
}

func view(k domain.SigningKey) Key {
	return Key{
		ID: k.ID, Algorithm: "Ed25519", PublicKey: signature.FormatPublicKey(k.Public), JWK: viewJWK(k),
		CreatedAt: web.Stamp(k.CreatedAt), ExpiresAt: web.Stamp(k.ExpiresAt),
	}
}

// answer shows the keys, and the public address of the key set.
func answer(c *web.Call, keys []domain.SigningKey) error {
	return c.Answer(http.StatusOK, Keys{web.Views(keys, view), c.WholeLink("/.well-known/waybill/" + url.PathEscape(c.Principal.Account) + "/jwks.json")})
}

// list shows the keys. The first request makes the account's first key, so that receivers can get
// it before a webhook is signed with it.
func (h *handlers) list(c *web.Call) error {
	if err := c.Check(); err != nil {
		return err
	}
	account := c.Principal.Account
	keys, err := h.store.SigningKeys(c.Context(), account)
	if err == nil && len(keys) == 0 {
		if err = h.store.EnsureSigningKey(c.Context(), account); err == nil {
			keys, err = h.store.SigningKeys(c.Context(), account)
		}
	}
	if err != nil {
		return err
	}
	return answer(c, keys)
}

func (h *handlers) rotate(c *web.Call) error {
	f := c.OptionalForm()
	overlap := float64(defaultOverlap)
	if seconds, ok := f.Number("overlapSeconds", 0, maxOverlap); ok {
		overlap = seconds
	}
	if err := c.Check(); err != nil {
		return err
	}
	keys, version, err := h.store.RotateSigningKey(c.Context(), c.Principal.Account, time.Duration(overlap*float64(time.Second)))
	if err != nil {
		return err
	}
	h.bus.Announce(bus.SubjectConfig, strconv.AppendInt(nil, version, 10))
	h.sets.forget(c.Principal.Account)
	return answer(c, keys)
}
