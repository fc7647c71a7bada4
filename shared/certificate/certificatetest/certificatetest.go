// Package certificatetest makes authorities and the certificates of clients, for tests.
package certificatetest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"testing"
	"time"
)

// Issuer is a certificate with its key. It can sign others, whether it should or not.
type Issuer struct {
	*x509.Certificate

	Key crypto.Signer
}

// NewCA returns an authority that signs itself. change may change the certificate before it is signed.
func NewCA(tb testing.TB, name string, change func(*x509.Certificate)) *Issuer {
	tb.Helper()
	return (*Issuer)(nil).Issue(tb, name, authority(change))
}

// NewCA returns an authority below this one.
func (i *Issuer) NewCA(tb testing.TB, name string) *Issuer {
	tb.Helper()
	return i.Issue(tb, name, authority(nil))
}

func authority(change func(*x509.Certificate)) func(*x509.Certificate) {
	return func(c *x509.Certificate) {
		c.IsCA, c.BasicConstraintsValid, c.KeyUsage, c.ExtKeyUsage = true, true, x509.KeyUsageCertSign, nil
		if change != nil {
			change(c)
		}
	}
}

// Issue returns a certificate for clients that the issuer has signed; a nil issuer makes one that
// signs itself. change may change the certificate before it is signed.
func (i *Issuer) Issue(tb testing.TB, name string, change func(*x509.Certificate)) *Issuer {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	return i.IssueFor(tb, name, key, change)
}

// IssueFor is Issue for an existing key.
func (i *Issuer) IssueFor(tb testing.TB, name string, key crypto.Signer, change func(*x509.Certificate)) *Issuer {
	tb.Helper()
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		tb.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	if change != nil {
		change(c)
	}
	parent, signer := c, key
	if i != nil {
		parent, signer = i.Certificate, i.Key
	}
	raw, err := x509.CreateCertificate(rand.Reader, c, parent, key.Public(), signer)
	if err != nil {
		tb.Fatal(err)
	}
	made, err := x509.ParseCertificate(raw)
	if err != nil {
		tb.Fatal(err)
	}
	return &Issuer{made, key}
}

// PEM returns the certificate as text.
func (i *Issuer) PEM() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: i.Raw}))
}

// TLS returns the certificates that a client shows in a handshake: its own, then those of others.
func (i *Issuer) TLS(others ...*Issuer) tls.Certificate {
	c := tls.Certificate{Certificate: [][]byte{i.Raw}, PrivateKey: i.Key}
	for _, other := range others {
		c.Certificate = append(c.Certificate, other.Raw)
	}
	return c
}
