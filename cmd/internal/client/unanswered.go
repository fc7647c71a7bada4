package client

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
	"syscall"
)

// NoAnswer says why the server at base did not answer, and gives advice if there is
// some. err is the error of an http.Client.
func NoAnswer(base string, err error) error {
	if failed, ok := errors.AsType[*url.Error](err); ok {
		err = failed.Err
	}
	advice := ""
	u, parseErr := url.Parse(base)
	if errors.Is(err, syscall.ECONNREFUSED) && parseErr == nil {
		advice = "\n  Is it running, and is the port right?"
		if isLoopback(u.Hostname()) {
			advice = "\n  Is it running? Start it with: waybill dev"
		}
	}
	if reason := tlsReason(err); reason != "" {
		return fmt.Errorf("no answer from %s: TLS failed: %s", base, reason)
	}
	return fmt.Errorf("no answer from %s: %w%s", base, err, advice)
}

// tlsReason returns the reason why a TLS handshake failed; empty: err is not a known TLS error.
func tlsReason(err error) string {
	var (
		authority x509.UnknownAuthorityError
		hostname  x509.HostnameError
		invalid   x509.CertificateInvalidError
		plain     tls.RecordHeaderError
		alert     tls.AlertError
	)
	switch {
	case errors.As(err, &authority):
		return "its certificate comes from an authority that this machine does not know"
	case errors.As(err, &hostname):
		return "its certificate is for another name: " + strings.TrimPrefix(hostname.Error(), "x509: ")
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "its certificate has expired, or is not valid yet, according to the clock of this machine"
	case errors.As(err, &invalid):
		return "its certificate is not valid: " + strings.TrimPrefix(invalid.Error(), "x509: ")
	case errors.As(err, &plain), err != nil && strings.Contains(err.Error(), "server gave HTTP response to HTTPS client"):
		return "it does not speak TLS on this port. Should the URL begin with http:// ?"
	case errors.As(err, &alert):
		return alert.Error()
	}
	return ""
}

// isLoopback reports whether host is this machine.
func isLoopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || strings.HasSuffix(host, ".localhost") || err == nil && addr.IsLoopback()
}

// WithScheme adds http:// to an address of this machine that has no scheme, such as localhost:3000.
// Other text stays as it is: a missing scheme must not lead to unencrypted requests over a network.
func WithScheme(text string) string {
	if strings.Contains(text, "://") {
		return text
	}
	if u, err := url.Parse("http://" + text); err == nil && isLoopback(u.Hostname()) {
		return "http://" + text
	}
	return text
}
