// Package jwt verifies access tokens in the form of JWTs (RFC 7519, RFC 9068): which issuer has signed a token, for
// which audience, and until when it is valid. The keys of an issuer are read from its JWKS and kept.
package jwt

import (
	"context"
	"crypto"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// MaxToken is how long a token may be, in bytes.
const MaxToken = 16 << 10

// maxTried is how many keys are tried for a signature. Issuers have several keys with one id at most for a moment.
const maxTried = 4

// Algorithms returns the known ways of signing. All of them are asymmetric: tokens can't be
// made from what an issuer publishes.
func Algorithms() []string {
	return []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}
}

// Rules are the conditions that a token must meet.
type Rules struct {
	// Issuer is the exact value that iss must have.
	Issuer string
	// Audience has the values of which aud must contain one.
	Audience []string
	// Algorithms are the algorithms with which a token may be signed, a subset of Algorithms; nil: all of those.
	Algorithms []string
	// Skew is how much the issuer's clock may differ.
	Skew time.Duration
}

// RefusedError is a fault of a token. The text is for a log, and contains nothing of the token.
type RefusedError string

func (e RefusedError) Error() string { return string(e) }

// Faults of tokens.
const (
	errForm      RefusedError = "it is no JWT, or is signed in a way that is not allowed"
	errLong      RefusedError = "it is longer than 16 KiB"
	errCritical  RefusedError = "its header has crit"
	errType      RefusedError = "its typ is not at+jwt or JWT"
	errKey       RefusedError = "the issuer has no such key"
	errSignature RefusedError = "its signature is not the issuer's"
	errClaims    RefusedError = "its claims can't be read"
	errIssuer    RefusedError = "iss is another issuer"
	errAudience  RefusedError = "aud does not name this audience"
	errNoEnd     RefusedError = "it has no exp"
	errEnded     RefusedError = "it has expired"
	errNotYet    RefusedError = "it is not valid yet"
)

// ErrUnavailable is returned while the issuer's keys are unknown.
var ErrUnavailable = errors.New("the issuer's keys can't be read")

// LooksLikeJWT reports whether text has the form of a JWT. It does not decode the text.
func LooksLikeJWT(text string) bool {
	return strings.HasPrefix(text, "eyJ") && strings.Count(text, ".") == 2
}

// Verify returns the content of a token that meets the rules and is signed with one of the keys. Otherwise the
// error is a RefusedError, or wraps ErrUnavailable.
func (r *Rules) Verify(ctx context.Context, raw string, keys *Keys) (*Token, error) {
	if len(raw) > MaxToken {
		return nil, errLong
	}
	signed, err := jose.ParseSignedCompact(raw, r.algorithms())
	if err != nil {
		return nil, errForm
	}
	payload, err := verify(ctx, signed, keys)
	if err != nil {
		return nil, err
	}
	token, err := readToken(payload)
	if err != nil {
		return nil, err
	}
	return token, r.check(token, time.Now())
}

func (r *Rules) algorithms() []jose.SignatureAlgorithm {
	names := r.Algorithms
	if names == nil {
		names = Algorithms()
	}
	list := make([]jose.SignatureAlgorithm, len(names))
	for i, name := range names {
		list[i] = jose.SignatureAlgorithm(name)
	}
	return list
}

// verify returns the signed payload. Keys that the token itself names or contains
// (jwk, jku, x5u, x5c) are ignored.
func verify(ctx context.Context, signed *jose.JSONWebSignature, keys *Keys) ([]byte, error) {
	header := signed.Signatures[0].Protected
	if _, ok := header.ExtraHeaders["crit"]; ok {
		return nil, errCritical
	}
	// Tokens of another type, such as a proof or a log-out, are no access tokens. Most issuers set JWT, or no type.
	if typ, ok := header.ExtraHeaders["typ"]; ok {
		text, _ := typ.(string)
		if !slices.Contains([]string{"jwt", "at+jwt"}, strings.TrimPrefix(strings.ToLower(text), "application/")) {
			return nil, errType
		}
	}
	found, err := keys.find(ctx, header.KeyID, header.Algorithm)
	if err != nil {
		return nil, err
	}
	for _, key := range found[:min(len(found), maxTried)] {
		if payload, err := signed.Verify(key); err == nil {
			return payload, nil
		}
	}
	return nil, errSignature
}

// check checks the claims of a token against the rules.
func (r *Rules) check(t *Token, now time.Time) error {
	seconds, skew := float64(now.UnixNano())/1e9, r.Skew.Seconds()
	switch {
	case t.issuer != r.Issuer:
		return errIssuer
	case !slices.ContainsFunc(t.audience, func(of string) bool { return slices.Contains(r.Audience, of) }):
		return errAudience
	case t.ends == nil:
		return errNoEnd
	case seconds >= *t.ends+skew:
		return errEnded
	case t.begins != nil && seconds < *t.begins-skew:
		return errNotYet
	}
	return nil
}

// key is a public key with its id and algorithm from the issuer.
type key struct {
	id, algorithm string // empty: not given
	public        crypto.PublicKey
}

// unavailable wraps an error from reading keys.
func unavailable(err error) error { return fmt.Errorf("%w: %w", ErrUnavailable, err) }
