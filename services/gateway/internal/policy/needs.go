package policy

import "slices"

// What policies say of the body, see route.NeedsBody. Those that say nothing get it.

// NeedsBody tells that a key is looked for in headers alone.
func (*apiKey) NeedsBody() bool { return false }

// NeedsBody tells that a token is looked for in headers alone.
func (*jwtAuth) NeedsBody() bool { return false }

// NeedsBody tells that a certificate is looked for in the connection alone.
func (*mtlsAuth) NeedsBody() bool { return false }

// NeedsBody tells that addresses are all that is looked at.
func (*addresses) NeedsBody() bool { return false }

// NeedsBody tells that requests are counted, however long they are.
func (*rateLimit) NeedsBody() bool { return false }

// NeedsBody tells that headers are all that is changed.
func (setHeaders) NeedsBody() bool { return false }

// NeedsBody tells that headers are all that is changed.
func (removeHeaders) NeedsBody() bool { return false }

// NeedsBody tells that the query is all that is changed.
func (setQuery) NeedsBody() bool { return false }

// NeedsBody tells that the query is all that is changed.
func (removeQuery) NeedsBody() bool { return false }

// NeedsBody tells that the status is all that is changed.
func (setStatus) NeedsBody() bool { return false }

// NeedsBody reports whether some body is held to a schema, and is not to be let pass unseen.
func (v *validation) NeedsBody() bool {
	return v.body != ignore && slices.ContainsFunc(v.media, func(m media) bool { return m.isRange() && m.schema != nil || m.checks(m.Type) })
}
