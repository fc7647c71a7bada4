// Package apikey reads the API key that a request carries, and says who its holder is.
package apikey

import (
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
	// TypeManager is a person who manages a consumer, signed in to the console. KeyID is the
	// manager's id.
	TypeManager = "manager"
)

// Bounds of a key's length, in bytes.
const (
	MinLength = 32
	MaxLength = 256
)

// Valid reports whether a text may be a key: it has MinLength to MaxLength visible ASCII characters.
func Valid(key string) bool {
	return len(key) >= MinLength && len(key) <= MaxLength && Visible(key)
}

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
	// BucketID and ConsumerID are the ids of Bucket and Consumer.
	BucketID   string
	ConsumerID string
}

// May reports whether the caller has the scope.
func (p Principal) May(scope domain.Scope) bool {
	return scope == domain.ScopeAny || slices.Contains(p.Scopes, domain.ScopeAdmin) || slices.Contains(p.Scopes, scope)
}

// Sees reports whether the caller may act on the account, as far as its scopes go. For any
// other one the answer is that of an account that does not exist. That holds for the
// bootstrap key, too: it makes accounts, and is itself of the default one.
func (p Principal) Sees(account string) bool { return p.Account == account }

// ErrUnauthenticated is returned for a key that opens nothing; what is wrong with it is
// not told.
var ErrUnauthenticated = errors.New("not authenticated")

// FromHeader returns the key that a request carries, as Authorization: Bearer or X-API-Key.
// ok is false when there is none, when it is malformed, and when there are two that differ.
func FromHeader(header http.Header) (key string, ok bool) {
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
	return key, key != "" && len(key) <= MaxLength && Visible(key)
}

// Visible reports whether text has visible ASCII characters only.
func Visible(text string) bool {
	for i := range len(text) {
		if text[i] <= ' ' || text[i] > '~' {
			return false
		}
	}
	return true
}
