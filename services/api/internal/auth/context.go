package auth

import "context"

type principalKey struct{}

// WithPrincipal says in the context of a request inside the process who calls: whoever
// serves it need not ask for a key again. No request from outside has such a context.
func WithPrincipal(ctx context.Context, p Principal) context.Context {
	return context.WithValue(ctx, principalKey{}, p)
}

// FromContext returns the caller that the context names; ok is false when it names none.
func FromContext(ctx context.Context) (p Principal, ok bool) {
	p, ok = ctx.Value(principalKey{}).(Principal)
	return p, ok
}
