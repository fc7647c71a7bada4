package auth

import (
	"context"

	"waybill.dev/shared/apikey"
)

type principalKey struct{}

// WithPrincipal says in the context of a request inside the process who calls: whoever
// serves it need not ask for a key again. No request from outside has such a context.
func WithPrincipal(ctx context.Context, p apikey.Principal) context.Context {
	return context.WithValue(ctx, principalKey{}, p)
}

// FromContext returns the caller that the context names; ok is false when it names none.
func FromContext(ctx context.Context) (p apikey.Principal, ok bool) {
	p, ok = ctx.Value(principalKey{}).(apikey.Principal)
	return p, ok
}
