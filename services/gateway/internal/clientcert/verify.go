package clientcert

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"waybill.dev/services/gateway/internal/route"
	"waybill.dev/shared/certificate"
	"waybill.dev/shared/domain"
)

// connection remembers the last verdict on the certificate of a connection.
type connection struct{ last atomic.Pointer[verdict] }

// verdict is the result of a check of a certificate. It holds as long as the CAs stay the same, and
// until a time; zero: for ever.
type verdict struct {
	set   *set
	leaf  *x509.Certificate
	until time.Time
	shown *route.Certificate
	err   error
}

type connectionKey struct{}

// ConnContext lets a connection remember its verdicts. A server calls it for each connection.
func ConnContext(ctx context.Context, _ net.Conn) context.Context {
	return context.WithValue(ctx, connectionKey{}, &connection{})
}

// Verify implements route.ClientCertificates. The handshake has proved that the client has the
// key of the certificate.
func (a *Authorities) Verify(ctx context.Context, account string, state *tls.ConnectionState) (*route.Certificate, error) {
	switch {
	case state == nil:
		return nil, errNoTLS
	case len(state.PeerCertificates) == 0:
		return nil, errNone
	}
	s, known := a.setOf(account)
	if !known {
		return nil, fmt.Errorf("it is not known yet which CAs there are: %w", domain.ErrUnavailable)
	}
	leaf, now := state.PeerCertificates[0], time.Now()
	remembered, _ := ctx.Value(connectionKey{}).(*connection)
	if remembered != nil {
		if v := remembered.last.Load(); v != nil && v.set == s && v.leaf == leaf && (v.until.IsZero() || now.Before(v.until)) {
			return v.shown, v.err
		}
	}
	v := newVerdict(s, leaf, now)
	if remembered != nil {
		remembered.last.Store(v)
	}
	return v.shown, v.err
}

func newVerdict(s *set, leaf *x509.Certificate, now time.Time) *verdict {
	v := &verdict{set: s, leaf: leaf, until: s.holdsUntil(leaf, now)}
	if v.err = s.check(leaf, now); v.err == nil {
		v.shown = &route.Certificate{
			Raw: leaf.Raw, Subject: certificate.Name(leaf.RawSubject), Issuer: certificate.Name(leaf.RawIssuer), Fingerprint: certificate.Fingerprint(leaf),
		}
	}
	return v
}
