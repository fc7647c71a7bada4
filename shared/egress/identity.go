package egress

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"strings"
)

// Identity is the certificate that a request shows to its receiver in the TLS handshake, and the
// authorities that it trusts. Connections of one identity are not used for another one: two
// identities are never the same, even if their certificates are.
type Identity struct {
	certificate *tls.Certificate
	authorities *x509.CertPool
}

// NewIdentity returns an identity with a certificate. The receiver's certificate must be issued by
// one of the authorities; nil: by those that the client trusts.
func NewIdentity(certificate *tls.Certificate, authorities *x509.CertPool) *Identity {
	return &Identity{certificate, authorities}
}

// applyTo puts the identity into the settings of a connection; nil: it changes nothing.
func (i *Identity) applyTo(config *tls.Config) {
	if i == nil {
		return
	}
	// The certificate is shown whichever authorities the receiver names, because
	// these lists are often incomplete.
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return i.certificate, nil }
	if i.authorities != nil {
		config.RootCAs = i.authorities
	}
}

// poolKey identifies connections that can be shared: an address, with one identity or none.
type poolKey struct {
	address  string
	identity *Identity
}

// refusedCertificate reports whether the receiver has ended a connection because of Waybill's
// certificate, or because there was none. In TLS 1.3 the receiver says so only after the client's
// part of the handshake.
func refusedCertificate(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "remote error" && strings.Contains(op.Err.Error(), "certificate") // the text is crypto/tls's own for the alert's number
}
