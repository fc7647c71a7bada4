package route

import (
	"context"
	"crypto/tls"
)

// ClientCertificates judges the certificates that clients show in the TLS handshake.
type ClientCertificates interface {
	// Verify returns the certificate of a connection if it was issued by a CA that the account
	// trusts now. The error describes the fault in a few words. It wraps domain.ErrUnavailable when
	// the certificate can't be judged now.
	Verify(ctx context.Context, account string, connection *tls.ConnectionState) (*Certificate, error)
}

// Certificate is a valid certificate of a client. It is never changed.
type Certificate struct {
	Raw             []byte // DER
	Subject, Issuer string // in the form of RFC 2253
	Fingerprint     string // AA:BB:…
}
