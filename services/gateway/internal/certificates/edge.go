// Package certificates handles the handshakes of incoming TLS connections. The name that a client gives in the
// handshake decides which certificate it gets. The gateway looks in memory first, so that a name that belongs to no
// account costs only its handshake.
package certificates

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/mholt/acmez/v3"
	"golang.org/x/sync/singleflight"

	"waybill.dev/services/gateway/internal/hosts"
	"waybill.dev/shared/domain"
)

// Uploads has the certificates that users have uploaded.
type Uploads interface {
	UploadedCertificate(ctx context.Context, domainID string) (domain.UploadedCertificate, error)
}

// Authority gives certificates for custom domains that have no uploaded one.
type Authority interface {
	// Certificate returns the certificate of a hostname. When there is none, it orders one.
	Certificate(ctx context.Context, hostname string) (*tls.Certificate, error)
	// Proof returns the certificate that proves the ownership of a hostname by TLS-ALPN-01.
	Proof(ctx context.Context, hostname string) (*tls.Certificate, error)
}

// Clients says which accounts' hosts ask clients for a certificate.
type Clients interface {
	// Asked reports whether clients of the account's hosts are asked for a certificate, and returns the CAs that may
	// have issued it; nil: any.
	Asked(account string) (names *x509.CertPool, asked bool)
}

// Options of an edge. Own, Authority and Clients may be left out.
type Options struct {
	// Hosts finds out from memory to whom a name belongs.
	Hosts   *hosts.Hosts
	Uploads Uploads
	// Authority gives certificates to names without an uploaded one; nil: there are none.
	Authority Authority
	// Own returns the operator's certificate, for Waybill's own hosts and those of deployments. Custom domains without
	// a certificate of their own get it, too.
	Own func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	// Clients says which accounts' hosts ask callers for a client certificate. When nil, none of them does.
	Clients Clients
	Logger  *slog.Logger
}

// Edge chooses certificates.
type Edge struct {
	options  Options
	base     *tls.Config
	proof    *tls.Config
	uploads  singleflight.Group
	failures failures
}

// New returns an edge.
func New(o Options) *Edge {
	e := &Edge{options: o}
	e.base = &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}, GetCertificate: e.certificate}
	e.proof = &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{acmez.ACMETLS1Protocol}, GetCertificate: e.proofOf}
	return e
}

// Config returns the configuration of a server that listens for TLS connections.
func (e *Edge) Config() *tls.Config {
	config := e.base.Clone()
	config.GetConfigForClient = e.configFor
	return config
}

// configFor returns the configuration of one connection.
func (e *Edge) configFor(hello *tls.ClientHelloInfo) (*tls.Config, error) {
	if slices.Equal(hello.SupportedProtos, []string{acmez.ACMETLS1Protocol}) {
		return e.proof, nil
	}
	return e.configOf(e.options.Hosts.Of(hello.ServerName).Account), nil
}

// configOf returns the configuration of connections for the hosts of an account; empty: for hosts that belong to no
// account. A client certificate is not judged here, but at each request. Where one is asked for, sessions are not
// resumed: a resumed session would carry the certificate without a handshake, also to other hosts.
func (e *Edge) configOf(account string) *tls.Config {
	if e.options.Clients == nil {
		return e.base
	}
	names, asked := e.options.Clients.Asked(account)
	if !asked {
		return e.base
	}
	config := e.base.Clone()
	config.ClientAuth, config.ClientCAs, config.SessionTicketsDisabled = tls.RequestClientCert, names, true
	return config
}

// errNoCertificate ends a handshake.
var errNoCertificate = errors.New("there is no certificate for this name")

// certificate returns the certificate that the client gets.
func (e *Edge) certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	d := e.options.Hosts.Of(hello.ServerName).Domain
	if d == nil {
		return e.ownCertificate(hello)
	}
	c, err := e.customCertificate(hello, d)
	if err != nil {
		if e.failures.addFirst(d.Hostname, time.Now()) {
			e.options.Logger.Warn("a custom domain has no certificate that can be used", "hostname", d.Hostname, "error", err)
		}
		return e.ownCertificate(hello)
	}
	return c, nil
}

// customCertificate returns the certificate of a custom domain.
func (e *Edge) customCertificate(hello *tls.ClientHelloInfo, d *hosts.Domain) (*tls.Certificate, error) {
	switch {
	case d.Uploaded != "":
		if c := d.Certificate.Load(); c != nil {
			return c, nil
		}
		return e.uploadedCertificate(hello.Context(), d)
	case e.options.Authority != nil:
		return e.options.Authority.Certificate(hello.Context(), d.Hostname)
	}
	return nil, errNoCertificate
}

// ownCertificate returns the operator's certificate.
func (e *Edge) ownCertificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	if e.options.Own == nil {
		return nil, errNoCertificate
	}
	return e.options.Own(hello)
}

// uploadTime bounds the reading of an uploaded certificate. The reading continues for other clients after the first
// client has gone.
const uploadTime = 5 * time.Second

// uploadedCertificate reads an uploaded certificate, once for all callers that wait for it.
func (e *Edge) uploadedCertificate(ctx context.Context, d *hosts.Domain) (*tls.Certificate, error) {
	if e.failures.isRecent(d.ID, time.Now()) {
		return nil, errNoCertificate
	}
	read, err, _ := e.uploads.Do(d.ID, func() (any, error) {
		if c := d.Certificate.Load(); c != nil {
			return c, nil
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), uploadTime)
		defer cancel()
		uploaded, err := e.options.Uploads.UploadedCertificate(ctx, d.ID)
		if err != nil {
			e.failures.add(d.ID, time.Now())
			return nil, err
		}
		c, err := tls.X509KeyPair([]byte(uploaded.Chain), []byte(uploaded.PrivateKey.Reveal()))
		if err != nil {
			e.failures.add(d.ID, time.Now())
			return nil, errors.New("read uploaded certificate: it and its key don't fit") // the text of the error may contain the key
		}
		d.Certificate.Store(&c)
		return &c, nil
	})
	if err != nil {
		return nil, fmt.Errorf("read uploaded certificate: %w", err)
	}
	c, _ := read.(*tls.Certificate)
	return c, nil
}

// proofOf answers an authority that asks for the proof of a hostname.
func (e *Edge) proofOf(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	d := e.options.Hosts.Of(hello.ServerName).Domain
	if d == nil || e.options.Authority == nil {
		return nil, errNoCertificate
	}
	return e.options.Authority.Proof(hello.Context(), d.Hostname)
}
