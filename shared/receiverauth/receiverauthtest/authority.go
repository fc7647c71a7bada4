// Package receiverauthtest makes certificates for tests.
package receiverauthtest

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
	"net"
	"testing"
	"time"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/receiverauth"
)

// Authority signs certificates.
type Authority struct {
	PEM         string
	Pool        *x509.CertPool
	certificate *x509.Certificate
	key         crypto.Signer
}

// New returns a new authority.
func New(tb testing.TB) *Authority {
	tb.Helper()
	key := newKey(tb)
	certificate := template("authority", time.Now().Add(24*time.Hour))
	certificate.IsCA, certificate.BasicConstraintsValid, certificate.KeyUsage = true, true, x509.KeyUsageCertSign
	raw, err := x509.CreateCertificate(rand.Reader, certificate, certificate, key.Public(), key)
	if err != nil {
		tb.Fatal(err)
	}
	a := &Authority{PEM: encode("CERTIFICATE", raw), Pool: x509.NewCertPool(), key: key}
	if a.certificate, err = x509.ParseCertificate(raw); err != nil {
		tb.Fatal(err)
	}
	a.Pool.AddCert(a.certificate)
	return a
}

// Issue returns a certificate for a name and for this machine, with its key, both as PEM.
func (a *Authority) Issue(tb testing.TB, name string, ends time.Time) (certificate, key string) {
	tb.Helper()
	own := newKey(tb)
	raw, err := x509.CreateCertificate(rand.Reader, template(name, ends), a.certificate, own.Public(), a.key)
	if err != nil {
		tb.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(own)
	if err != nil {
		tb.Fatal(err)
	}
	return encode("CERTIFICATE", raw), encode("PRIVATE KEY", secret)
}

// Auth returns an Auth with a certificate for a name, as a webhook has it. The authority also
// issues the receiver's certificate.
func (a *Authority) Auth(tb testing.TB, name string) *receiverauth.Auth {
	tb.Helper()
	certificate, key := a.Issue(tb, name, time.Now().Add(time.Hour))
	return &receiverauth.Auth{Type: receiverauth.MTLS, Certificate: certificate, PrivateKey: domain.Secret(key), CA: a.PEM}
}

// Server returns the settings of a receiver that requires a certificate of the authority.
func (a *Authority) Server(tb testing.TB) *tls.Config {
	tb.Helper()
	certificate, key := a.Issue(tb, "receiver", time.Now().Add(time.Hour))
	pair, err := tls.X509KeyPair([]byte(certificate), []byte(key))
	if err != nil {
		tb.Fatal(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: a.Pool, MinVersion: tls.VersionTLS12}
}

func newKey(tb testing.TB) crypto.Signer {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	return key
}

func template(name string, ends time.Time) *x509.Certificate {
	from := ends.Add(-48 * time.Hour)
	if now := time.Now(); from.After(now) {
		from = now.Add(-time.Hour)
	}
	return &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: from, NotAfter: ends,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}, DNSNames: []string{"localhost"},
	}
}

func encode(kind string, raw []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: raw}))
}
