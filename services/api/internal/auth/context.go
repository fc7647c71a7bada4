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

type sessionKey struct{}

// WithSession says in such a context by which session of the console the caller calls.
func WithSession(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, sessionKey{}, id)
}

// SessionOf returns the session that the context names; empty: none.
func SessionOf(ctx context.Context) string {
	id, _ := ctx.Value(sessionKey{}).(string)
	return id
}
