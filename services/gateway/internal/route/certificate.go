package route

import (
	"context"
	"crypto/tls"
)

// ClientCertificates judges the certificates that clients show in the TLS handshake.
type ClientCertificates interface {
	// Verify returns the certificate of a connection when a CA that the account trusts now has
	// issued it. The error says in a few words what is wrong, and wraps domain.ErrUnavailable
	// when that can't be told now.
	Verify(ctx context.Context, account string, connection *tls.ConnectionState) (*Certificate, error)
}

// Certificate is a certificate of a client that was found to be good. Nobody changes it.
type Certificate struct {
	Raw             []byte // DER
	Subject, Issuer string // as RFC 2253 has them
	Fingerprint     string // AA:BB:…
}
