// Package certificate reads X.509 certificates of authorities and of clients: the api checks
// uploaded certificates, and gateways find the subject of a client's certificate.
package certificate

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"strings"
	"time"
)

// minRSA is how long the key of an authority must be, in bits.
const minRSA = 2048

// The faults of an authority's certificate. Each text continues a sentence that begins with the
// field's name, and contains nothing of the certificate's text.
var (
	ErrPrivateKey = errors.New("must not have a private key: upload the certificate alone, and take the key for known to others")
	ErrPEM        = errors.New("must be one certificate in PEM")
	ErrNoCA       = errors.New("must be the certificate of a CA: its basic constraints say that it is none")
	ErrKeyUsage   = errors.New("must be allowed to sign certificates: its key usage lacks keyCertSign")
	ErrWeakKey    = errors.New("must have an RSA key of at least 2048 bits, an ECDSA key on P-256, P-384 or P-521, or an Ed25519 key")
	ErrEnded      = errors.New("has ended: its validTo is past")
)

// Authority reads the certificate of an authority in PEM. Text before and after it is ignored,
// because tools write such text. The error is one of the faults.
func Authority(text string, now time.Time) (*x509.Certificate, error) {
	if strings.Contains(text, "PRIVATE KEY") {
		return nil, ErrPrivateKey
	}
	block, rest := pem.Decode([]byte(text))
	if block == nil || block.Type != "CERTIFICATE" || strings.Contains(string(rest), "-----BEGIN") {
		return nil, ErrPEM
	}
	c, err := x509.ParseCertificate(block.Bytes)
	switch {
	case err != nil:
		return nil, ErrPEM
	case !c.BasicConstraintsValid || !c.IsCA:
		return nil, ErrNoCA
	case c.KeyUsage&x509.KeyUsageCertSign == 0:
		return nil, ErrKeyUsage
	case !Strong(c.PublicKey):
		return nil, ErrWeakKey
	case now.After(c.NotAfter):
		return nil, ErrEnded
	}
	return c, nil
}

// Strong reports whether browsers and gateways accept a public key: RSA of 2048 bits or more, ECDSA
// on P-256 or a larger curve, or Ed25519.
func Strong(key any) bool {
	switch key := key.(type) {
	case *rsa.PublicKey:
		return key.N.BitLen() >= minRSA
	case *ecdsa.PublicKey:
		return key.Curve.Params().BitSize >= 256
	case ed25519.PublicKey:
		return true
	}
	return false
}

// Fingerprint returns the SHA-256 of the certificate in the form that people compare: AA:BB:…
func Fingerprint(c *x509.Certificate) string {
	sum := sha256.Sum256(c.Raw)
	return digits(sum[:])
}

// Serial returns the serial number in the same form.
func Serial(c *x509.Certificate) string { return digits(c.SerialNumber.Bytes()) }

func digits(raw []byte) string {
	const digits = "0123456789ABCDEF"
	text := make([]byte, 0, 3*len(raw))
	for i, b := range raw {
		if i > 0 {
			text = append(text, ':')
		}
		text = append(text, digits[b>>4], digits[b&15])
	}
	return string(text)
}
