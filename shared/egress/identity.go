package egress

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"strings"
)

// Identity is what a request shows to its receiver in the TLS handshake, and whom it trusts.
// Connections of one identity are used for no other one: two of them are never the same, even
// when their certificates are.
type Identity struct {
	certificate *tls.Certificate
	authorities *x509.CertPool
}

// NewIdentity returns an identity with a certificate. The receiver's certificate must come
// from one of the authorities; nil: those that the client trusts.
func NewIdentity(certificate *tls.Certificate, authorities *x509.CertPool) *Identity {
	return &Identity{certificate, authorities}
}

// onto puts the identity into the settings of a connection; nil: there is none.
func (i *Identity) onto(config *tls.Config) {
	if i == nil {
		return
	}
	// It is shown whichever authorities the receiver names: those lists are often not whole.
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return i.certificate, nil }
	if i.authorities != nil {
		config.RootCAs = i.authorities
	}
}

// place is what shares idle connections: an address, for one identity or for none.
type place struct {
	address  string
	identity *Identity
}

// refusedCertificate reports whether the receiver has ended a connection because of our
// certificate, or for want of one. In TLS 1.3 it says so only when the handshake is over for us.
func refusedCertificate(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "remote error" && strings.Contains(op.Err.Error(), "certificate") // the text is crypto/tls's own for the alert's number
}
