package hostile

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"testing"
	"time"
)

func overTLS() []Sink {
	return []Sink{
		secure("TLS: certificate of nobody", valid, nil),
		secure("TLS: expired", expired, nil),
		secure("TLS: another name", otherName, nil),
		secure("TLS: 1.1 at most", valid, func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS10, tls.VersionTLS11 }),
		secure("TLS: HTTP/2 only", valid, func(c *tls.Config) { c.NextProtos = []string{"h2"} }),
		https("TLS: plain text", func(c *conn) {
			c.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
			c.hold()
		}),
		https("TLS: silent", (*conn).hold),
		https("TLS: a byte of handshake every 100 ms", func(c *conn) {
			if c.send("\x16\x03\x03\x10\x00\x02") {
				c.drip("\x00", 100*time.Millisecond)
			}
		}),
		https("TLS: endless records", func(c *conn) {
			c.forever("\x16\x03\x03\x00\x04\x00\x00\x00\x00")
		}),
		https("TLS: closes in the handshake", func(c *conn) { _, _ = c.Read(make([]byte, 1)) }),
	}
}

// https returns a sink with an https URL that runs behave instead of a handshake.
func https(name string, behave func(*conn)) Sink {
	return Sink{Name: name, Start: func(tb testing.TB) string {
		return "https://" + serve(tb, behave) + "/hook"
	}}
}

// secure returns a sink that answers 200 to each client that accepts the sink's certificate.
func secure(name string, certificate func(*x509.Certificate), change func(*tls.Config)) Sink {
	return Sink{Name: name, Start: func(tb testing.TB) string {
		config := &tls.Config{Certificates: []tls.Certificate{selfSigned(tb, certificate)}, MinVersion: tls.VersionTLS12}
		if change != nil {
			change(config)
		}
		return "https://" + serve(tb, func(c *conn) {
			server := tls.Server(c.Conn, config)
			if server.Handshake() != nil {
				return
			}
			_, _ = server.Write([]byte("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"))
			_, _ = server.Read(make([]byte, 1))
		}) + "/hook"
	}}
}

func valid(*x509.Certificate) {}

func expired(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Hour) }

func otherName(c *x509.Certificate) {
	c.IPAddresses, c.DNSNames = nil, []string{"other.example.com"}
}

func selfSigned(tb testing.TB, change func(*x509.Certificate)) tls.Certificate {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "hostile"},
		NotBefore: time.Now().Add(-24 * time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	change(template)
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		tb.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}
