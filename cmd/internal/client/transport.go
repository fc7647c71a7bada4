package client

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// connectTime is how long a connection may take.
const connectTime = 10 * time.Second

// NewTransport returns a transport that connects to the loopback address for localhost and the names
// below it (RFC 6761). These names are not sent to a resolver or proxy.
func NewTransport() *http.Transport {
	return &http.Transport{
		Proxy: func(r *http.Request) (*url.URL, error) {
			if isLocalhost(r.URL.Hostname()) {
				return nil, nil //nolint:nilnil // no proxy, as http.Transport has it
			}
			return http.ProxyFromEnvironment(r)
		},
		DialContext: Dial, ForceAttemptHTTP2: true,
		TLSHandshakeTimeout: connectTime, IdleConnTimeout: time.Minute,
	}
}

// Dial connects as net.Dialer does, and to loopback for names below localhost.
func Dial(ctx context.Context, network, address string) (net.Conn, error) {
	dialer := net.Dialer{Timeout: connectTime}
	host, port, err := net.SplitHostPort(address)
	if err != nil || !isLocalhost(host) {
		return dialer.DialContext(ctx, network, address)
	}
	connection, err := dialer.DialContext(ctx, network, net.JoinHostPort("127.0.0.1", port))
	if err != nil {
		var second error
		if connection, second = dialer.DialContext(ctx, network, net.JoinHostPort("::1", port)); second != nil {
			return nil, err // most servers listen on 127.0.0.1
		}
	}
	return connection, nil
}

// isLocalhost reports whether a name is localhost or below it.
func isLocalhost(host string) bool {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}

// NewHTTP returns an HTTP client with such a transport, for servers that are not an installation's
// API.
func NewHTTP() *http.Client { return &http.Client{Transport: NewTransport()} }
