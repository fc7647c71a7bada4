// Package apikey reads the API key of a request, and describes the key's holder.
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

// Principal is an authenticated caller. It has no secrets, and must not be changed, because all
// requests with one key share it.
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

// Sees reports whether the caller may act on the account, as far as its scopes allow. For any other
// account the answer is that of an account that does not exist. That is also true for the bootstrap
// key, which makes accounts but belongs to the default one.
func (p Principal) Sees(account string) bool { return p.Account == account }

// ErrUnauthenticated is returned for a key that is not valid; it does not say why.
var ErrUnauthenticated = errors.New("not authenticated")

// FromHeader returns the key in a request's header, Authorization: Bearer or X-API-Key. ok is false
// when there is none, when it is malformed, and when there are two different keys.
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

// Visible reports whether text has only visible ASCII characters.
func Visible(text string) bool {
	for i := range len(text) {
		if text[i] <= ' ' || text[i] > '~' {
			return false
		}
	}
	return true
}
