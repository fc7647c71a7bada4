package auth

import (
	"context"

	"waybill.dev/shared/apikey"
)

type principalKey struct{}

// WithPrincipal puts the caller into the context of a request inside the process, so that no key is asked for again. No
// request from outside has such a context.
func WithPrincipal(ctx context.Context, p apikey.Principal) context.Context {
	return context.WithValue(ctx, principalKey{}, p)
}

// FromContext returns the caller in a context; ok is false when there is none.
func FromContext(ctx context.Context) (p apikey.Principal, ok bool) {
	p, ok = ctx.Value(principalKey{}).(apikey.Principal)
	return p, ok
}

type sessionKey struct{}

// WithSession puts the caller's session of the console into such a context.
func WithSession(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, sessionKey{}, id)
}

// SessionOf returns the session that the context names; empty: none.
func SessionOf(ctx context.Context) string {
	id, _ := ctx.Value(sessionKey{}).(string)
	return id
}
