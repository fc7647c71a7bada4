// Package post makes the callback: it signs the payload, sets the documented
// headers, and posts it through the checks of package egress.
package post

import (
	"fmt"
	"net/http"
	"time"

	"waybill.dev/services/dispatcher/internal/index"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/egress"
	"waybill.dev/shared/signature"
)

// CallbackParts is what callbacks of one state of a webhook have in common.
type CallbackParts struct {
	headers []egress.Field
	names   []string // of headers
	current *signature.Signer
	// overlap signs with both the current and the previous secret, until overlapUntil.
	overlap      *signature.Signer
	overlapUntil time.Time
	// asymmetric signs by v1a; nil: the webhook is signed by v1 alone.
	asymmetric *asymmetric
	auth       *auth // nil: attempts need no further authentication
}

// Prepare implements index.Prepare.
func Prepare(w *domain.Webhook) (index.Preparation, error) {
	if w.Deleted {
		return &CallbackParts{}, nil
	}
	p := &CallbackParts{headers: make([]egress.Field, 0, len(w.Headers))}
	for _, h := range w.Headers {
		name := http.CanonicalHeaderKey(h.Name)
		p.headers = append(p.headers, egress.Field{Name: name, Value: h.Value.Reveal()})
		p.names = append(p.names, name)
	}
	key, err := signature.ParseSecret(w.Secret.Reveal())
	if err != nil {
		return nil, fmt.Errorf("read secret: %w", err)
	}
	p.current = signature.NewSigner(key)
	if w.PreviousSecret != "" {
		previous, err := signature.ParseSecret(w.PreviousSecret.Reveal())
		if err != nil {
			return nil, fmt.Errorf("read previous secret: %w", err)
		}
		p.overlap, p.overlapUntil = signature.NewSigner(key, previous), w.PreviousSecretExpiresAt
	}
	if w.Signing.Asymmetric() {
		if p.asymmetric, err = prepareAsymmetric(w); err != nil {
			return nil, err
		}
	}
	err = p.authenticate(w.Auth)
	return p, err
}

// sign returns the value of the webhook-signature header.
func (p *CallbackParts) sign(id string, at time.Time, body []byte) string {
	if p.asymmetric == nil {
		return p.signer(at).Sign(id, at, body)
	}
	signed := p.asymmetric.sign(id, at, body)
	if p.asymmetric.alone {
		return signed
	}
	return p.signer(at).Sign(id, at, body) + " " + signed
}

// withUnknownKeys returns CallbackParts that signs in the same versions, with new keys that are used
// only here: no receiver knows them.
func (p *CallbackParts) withUnknownKeys() (*CallbackParts, error) {
	key, err := signature.ParseSecret(domain.NewSecret().Reveal())
	if err != nil {
		return nil, fmt.Errorf("make a secret: %w", err)
	}
	other := &CallbackParts{current: signature.NewSigner(key)}
	if p.asymmetric != nil {
		other.asymmetric = &asymmetric{keys: []signature.PrivateKey{signature.NewPrivateKey()}, until: make([]time.Time, 1), alone: p.asymmetric.alone}
	}
	return other, nil
}

// signer returns the signer for a time: during the overlap of a rotation it signs with both secrets.
func (p *CallbackParts) signer(at time.Time) *signature.Signer {
	if p.overlap != nil && at.Before(p.overlapUntil) {
		return p.overlap
	}
	return p.current
}
