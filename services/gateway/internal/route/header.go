package route

import (
	"errors"
	"net/textproto"
	"strings"
)

var (
	errHeaderName       = errors.New("is not a valid header name")
	errHeaderConnection = errors.New("belongs to the connection")
	errHeaderValue      = errors.New("is not a valid header value")
)

// CheckHeader reports whether a route's configuration may set name to value. The errors read
// on after the name, and never have the value.
func CheckHeader(name, value string) error {
	if name == "" || strings.ContainsFunc(name, notToken) {
		return errHeaderName
	}
	if name := textproto.CanonicalMIMEHeaderKey(name); name == "Host" || name == "Content-Length" || OfConnection(name) {
		return errHeaderConnection
	}
	if strings.Trim(value, " \t") != value || strings.ContainsFunc(value, isControl) {
		return errHeaderValue
	}
	return nil
}

// OfConnection reports whether a header, by its canonical name, belongs to a single connection and is never passed on.
// The header Connection may name more of them.
func OfConnection(name string) bool {
	switch name {
	case "Connection", "Keep-Alive", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "Http2-Settings":
		return true
	}
	return strings.HasPrefix(name, "Proxy-")
}

// The headers that tell a back end the caller's key and certificate. Only the gateway can set them.
const (
	AccountHeader  = "X-Waybill-Account"
	BucketHeader   = "X-Waybill-Bucket"
	ConsumerHeader = "X-Waybill-Consumer"

	CertificateHeader = "Client-Cert" // as in RFC 9440
	SubjectHeader     = "Client-Cert-Subject"
	FingerprintHeader = "Client-Cert-Fingerprint"

	callerPrefix      = "x-waybill-"
	certificatePrefix = "client-cert-"
)

// SaysCaller reports whether a header is one of these, or would be one for a back end that takes other characters for a
// hyphen, as many do with the underscore.
func SaysCaller(name string) bool {
	return begins(name, callerPrefix) || begins(name, certificatePrefix) || len(name) == len(CertificateHeader) && begins(name, certificatePrefix[:len(CertificateHeader)])
}

// SaysIdentity reports whether a header, in any spelling as for SaysCaller, is one by which other reverse proxies tell
// back ends who the caller is. A back end may trust it. Proxy is on the list because CGI turns it into HTTP_PROXY.
func SaysIdentity(name string) bool {
	for _, prefix := range [...]string{"remote-", "x-remote-", "x-client-cert", "x-ssl-client-", "ssl-client-"} {
		if begins(name, prefix) {
			return true
		}
	}
	return len(name) == len("proxy") && begins(name, "proxy")
}

func begins(name, prefix string) bool {
	if len(name) < len(prefix) {
		return false
	}
	for i := range len(prefix) {
		c := name[i]
		switch {
		case 'A' <= c && c <= 'Z':
			c += 'a' - 'A'
		case c < '0' || '9' < c && c < 'a' || c > 'z':
			c = '-'
		}
		if c != prefix[i] {
			return false
		}
	}
	return true
}

func notToken(r rune) bool {
	return r <= ' ' || r > '~' || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
}

func isControl(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }
