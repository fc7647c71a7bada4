package policy

import "slices"

// Whether policies need the body, see route.NeedsBody. Policies without this method get the body.

// NeedsBody reports false: a key is only in headers.
func (*apiKey) NeedsBody() bool { return false }

// NeedsBody reports false: a token is only in headers.
func (*jwtAuth) NeedsBody() bool { return false }

// NeedsBody reports false: a certificate belongs to the connection.
func (*mtlsAuth) NeedsBody() bool { return false }

// NeedsBody reports false: only addresses are compared.
func (*addresses) NeedsBody() bool { return false }

// NeedsBody reports false: requests are counted whatever their length.
func (*rateLimit) NeedsBody() bool { return false }

// NeedsBody reports false: only headers are changed.
func (setHeaders) NeedsBody() bool { return false }

// NeedsBody reports false: only headers are changed.
func (removeHeaders) NeedsBody() bool { return false }

// NeedsBody reports false: only the query is changed.
func (setQuery) NeedsBody() bool { return false }

// NeedsBody reports false: only the query is changed.
func (removeQuery) NeedsBody() bool { return false }

// NeedsBody reports false: only the status is changed.
func (setStatus) NeedsBody() bool { return false }

// NeedsBody reports whether bodies of some media type are checked against a schema, and faults in
// them have an effect.
func (v *validation) NeedsBody() bool {
	return v.body != ignore && slices.ContainsFunc(v.media, func(m media) bool { return m.isRange() && m.schema != nil || m.checks(m.Type) })
}
