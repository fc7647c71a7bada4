package egress

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// What is taken of an answer.
const (
	MaxRead        = 16 << 10 // bytes of a body that are read
	MaxKept        = 4 << 10  // bytes of it that are kept
	maxHeaderBytes = 32 << 10 // of its header, that of 1xx answers included
	maxAttempt     = 30 * time.Second
)

// Options are the settings of a Client; zero values take the defaults.
type Options struct {
	// MaxIdle bounds the idle connections that are kept, in all and for one host: 5000,
	// the most that one webhook may have in flight. Each costs about 20 KB.
	MaxIdle        int
	IdleTimeout    time.Duration // 30 s
	ConnectTimeout time.Duration // 5 s, for looking up the name and connecting
	TLSTimeout     time.Duration // 5 s
	RootCAs        *x509.CertPool
	Resolver       *net.Resolver // only its Dial is used; the system's name servers
}

func (o Options) withDefaults() Options {
	if o.MaxIdle == 0 {
		o.MaxIdle = 5000
	}
	if o.IdleTimeout == 0 {
		o.IdleTimeout = 30 * time.Second
	}
	if o.ConnectTimeout == 0 {
		o.ConnectTimeout = 5 * time.Second
	}
	if o.TLSTimeout == 0 {
		o.TLSTimeout = 5 * time.Second
	}
	return o
}

// Client posts callbacks. It is safe for concurrent use; how many attempts run at once
// is the caller's to bound. Whoever makes one routes the standard logger through
// LogWriter: net/http logs bytes that receivers send unasked.
type Client struct {
	policy    *Policy
	transport *http.Transport
	buffers   sync.Pool
}

// NewClient returns a client that connects to what p allows, and nothing else.
func (p *Policy) NewClient(o Options) *Client {
	o = o.withDefaults()
	return newClient(p, o, newDialer(p, o))
}

func newClient(p *Policy, o Options, d *dialer) *Client {
	return &Client{
		policy:    p,
		transport: newHTTP(o, d.dial, d.dialTLS),
		buffers:   sync.Pool{New: func() any { return new([MaxKept]byte) }},
	}
}

// dial connects to an address, which is host:port.
type dial func(ctx context.Context, network, address string) (net.Conn, error)

func newHTTP(o Options, plain, secure dial) *http.Transport {
	var http1 http.Protocols
	// One HTTP/2 receiver can make a single call open thousands of connections.
	http1.SetHTTP1(true)
	return &http.Transport{
		Proxy:                  nil, // a proxy's address would be guarded, not the target's
		Protocols:              &http1,
		DialContext:            plain,
		DialTLSContext:         secure,
		DisableCompression:     true,
		MaxResponseHeaderBytes: maxHeaderBytes,
		MaxIdleConns:           o.MaxIdle,
		MaxIdleConnsPerHost:    o.MaxIdle,
		IdleConnTimeout:        o.IdleTimeout,
	}
}

// Close closes the idle connections. Attempts that run are not touched.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

// Request is one callback. Header and Body must not be changed even after Post has
// returned: a receiver that answers early leaves the rest being written.
type Request struct {
	URL    string
	Header http.Header
	Body   []byte
}

// Response is how an attempt ended: with an answer (Status is set) or without (Code and
// Err are set).
type Response struct {
	Status     int      // 200 to 599; 0: no valid answer
	RetryAfter []string // values of that header, as they came
	// Body has at most MaxKept bytes of the answer's body, valid UTF-8 without U+0000.
	Body string
	Code Code
	Err  *Error // for the operator's log; customers get Code.Text()
}

// Post sends r once and reads the answer. It checks the URL again, connects to no address
// that the policy refuses, follows no redirect, and ends at ctx's deadline or after 30 s.
func (c *Client) Post(ctx context.Context, r *Request) Response {
	to, err := c.policy.target(r.URL, &rules)
	if err != nil {
		return refused(err)
	}
	if deadline, ok := ctx.Deadline(); !ok || time.Until(deadline) > maxAttempt {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, maxAttempt)
		defer cancel()
	}
	request := (&http.Request{
		Method: http.MethodPost, URL: to, Host: to.Host, Header: withoutIdempotency(r.Header),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		// Without GetBody the transport can't send it a second time.
		Body: io.NopCloser(bytes.NewReader(r.Body)), ContentLength: int64(len(r.Body)),
	}).WithContext(ctx)
	if len(r.Body) == 0 {
		request.Body = http.NoBody
	}
	// RoundTrip, not http.Client: no redirects, no cookies, one POST.
	answer, err := c.transport.RoundTrip(request)
	if err != nil {
		failure := classify(ctx, err)
		return Response{Code: failure.Code, Err: failure}
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode < 200 || answer.StatusCode > 599 {
		// Unread: after a 101 a read would last as long as the receiver likes.
		return Response{Code: CodeBadStatus, Err: &Error{Code: CodeBadStatus}}
	}
	return Response{Status: answer.StatusCode, RetryAfter: answer.Header["Retry-After"], Body: c.keep(answer)}
}

func refused(err error) Response {
	code := CodeURL
	if errors.Is(err, ErrAddress) {
		code = CodeAddress
	}
	return Response{Code: code, Err: &Error{Code: code, cause: err}}
}

// withoutIdempotency takes away the headers with which net/http believes that a POST may
// be sent twice.
func withoutIdempotency(header http.Header) http.Header {
	if header == nil {
		return http.Header{}
	}
	for name := range header {
		if strings.EqualFold(name, "Idempotency-Key") || strings.EqualFold(name, "X-Idempotency-Key") {
			clean := header.Clone()
			delete(clean, name)
			return withoutIdempotency(clean)
		}
	}
	return header
}

// keep reads the body within its bounds. An error while reading is none of the attempt:
// the receiver has answered.
func (c *Client) keep(answer *http.Response) string {
	if answer.ContentLength == 0 {
		return ""
	}
	buffer := c.buffers.Get().(*[MaxKept]byte) //nolint:errcheck // the pool holds nothing else
	defer c.buffers.Put(buffer)
	n, err := io.ReadFull(answer.Body, buffer[:])
	kept := clean(buffer[:n])
	if err == nil {
		// The connection is used again only if the body ends within what may be read.
		for read := n; read < MaxRead && err == nil; read += n {
			n, err = answer.Body.Read(buffer[:min(MaxKept, MaxRead-read)])
		}
	}
	return kept
}

// clean makes text that a database takes of what a receiver sent, in at most MaxKept
// bytes.
func clean(raw []byte) string {
	if len(raw) == MaxKept {
		raw = trimPartialRune(raw)
	}
	if utf8.Valid(raw) && bytes.IndexByte(raw, 0) < 0 {
		return string(raw)
	}
	text := strings.ReplaceAll(strings.ToValidUTF8(string(raw), "\uFFFD"), "\x00", "")
	if len(text) > MaxKept {
		text = string(trimPartialRune([]byte(text[:MaxKept])))
	}
	return text
}

// trimPartialRune drops the beginning of a character that a cut has left at the end.
func trimPartialRune(text []byte) []byte {
	for i := len(text) - 1; i >= 0 && i >= len(text)-utf8.UTFMax; i-- {
		if utf8.RuneStart(text[i]) {
			if !utf8.FullRune(text[i:]) {
				return text[:i]
			}
			break
		}
	}
	return text
}
