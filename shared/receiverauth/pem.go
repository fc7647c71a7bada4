package receiverauth

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"strings"
	"time"

	"waybill.dev/shared/domain"
)

// The faults of PEM texts. Each text continues a sentence that begins with the field's name, and
// contains nothing of the PEM text.
var (
	ErrCertificates = errors.New("must be certificates in PEM and nothing else, at most 8 of them")
	ErrKey          = errors.New("must be one private key in PEM that is not encrypted: RSA, ECDSA or Ed25519")
	ErrMismatch     = errors.New("does not belong to the first certificate")
)

// maxCertificates bounds the certificates of a chain, and the authorities of a webhook.
const maxCertificates = 8

// Certificates reads certificates in PEM. It fails with ErrCertificates.
func Certificates(text string) ([]*x509.Certificate, error) {
	var list []*x509.Certificate
	for rest := []byte(text); ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			if len(list) == 0 || len(list) > maxCertificates || bytes.Contains(rest, []byte("-----BEGIN")) {
				return nil, ErrCertificates
			}
			return list, nil
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if block.Type != "CERTIFICATE" || err != nil {
			return nil, ErrCertificates
		}
		list = append(list, certificate)
	}
}

// KeyPair reads the certificate with its key, for TLS. It fails with ErrKey or ErrMismatch if the
// certificates are valid.
func (a *Auth) KeyPair() (tls.Certificate, error) {
	pair, err := tls.X509KeyPair([]byte(a.Certificate), []byte(a.PrivateKey.Reveal()))
	switch {
	case err == nil:
		return pair, nil
	case strings.Contains(err.Error(), "does not match"):
		return pair, ErrMismatch
	}
	return pair, ErrKey
}

// Authorities returns the authorities that may issue the receiver's certificate; nil: those of the system.
func (a *Auth) Authorities() (*x509.CertPool, error) {
	if a.CA == "" {
		return nil, nil //nolint:nilnil // as crypto/tls has it
	}
	list, err := Certificates(a.CA)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	for _, certificate := range list {
		pool.AddCert(certificate)
	}
	return pool, nil
}

// ExpiresAt returns when the certificate of a stored Auth ends; zero: the Auth has none.
func ExpiresAt(kept domain.Secret) time.Time {
	if kept == "" {
		return time.Time{}
	}
	of, err := Decode(kept)
	if err != nil || of.Type != MTLS {
		return time.Time{}
	}
	chain, err := Certificates(of.Certificate)
	if err != nil {
		return time.Time{}
	}
	return chain[0].NotAfter
}
