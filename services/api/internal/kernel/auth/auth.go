// Package auth decides who a caller is and what the caller may do.
package auth

import (
	"context"
	"slices"

	"waybill.dev/shared/apikey"
	"waybill.dev/shared/domain"
)

// Exceeds reports whether scopes hold more than the principal has: then it may neither give
// them to a consumer, nor touch the keys of one that has them.
func Exceeds(scopes []domain.Scope, of apikey.Principal) bool {
	return slices.ContainsFunc(scopes, func(s domain.Scope) bool { return !of.May(s) })
}

// Authenticator finds the caller of a key. Authenticator fails with apikey.ErrUnauthenticated, or with an error that
// wraps domain.ErrUnavailable when that can't be told now.
type Authenticator interface {
	Authenticate(ctx context.Context, key string) (apikey.Principal, error)
}
