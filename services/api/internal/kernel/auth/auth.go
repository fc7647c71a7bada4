// Package auth decides who a caller is and which rights the caller has.
package auth

import (
	"context"
	"slices"

	"waybill.dev/shared/apikey"
	"waybill.dev/shared/domain"
)

// Exceeds reports whether scopes contain one that the principal lacks: then the principal may neither give them to a
// consumer, nor touch the keys of a consumer that has them.
func Exceeds(scopes []domain.Scope, of apikey.Principal) bool {
	return slices.ContainsFunc(scopes, func(s domain.Scope) bool { return !of.May(s) })
}

// Authenticator finds the caller of a key. It fails with apikey.ErrUnauthenticated, or with an error that wraps
// domain.ErrUnavailable when it can't find out now.
type Authenticator interface {
	Authenticate(ctx context.Context, key string) (apikey.Principal, error)
}
