package egress

import (
	"bytes"
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"waybill.dev/shared/domain"
)

// Limits of an answer.
const (
	MaxRead        = 16 << 10 // bytes of a body that are read
	MaxKept        = 4 << 10  // bytes of the body that are kept
	maxHeaderBytes = 64 << 10 // of the answer's header, including those of 1xx answers
	maxAttempt     = 30 * time.Second
)

// Options are the settings of a Client; zero values take the defaults.
type Options struct {
	// MaxIdle bounds the idle connections, in all and for one host: 5000, the most that one webhook
	// may have in flight. Each has a buffer of 2 KB, and the memory of TLS.
	MaxIdle        int
	IdleTimeout    time.Duration // 30 s
	ConnectTimeout time.Duration // 5 s, for looking up the name and connecting
	TLSTimeout     time.Duration // 5 s
	RootCAs        *x509.CertPool
	Resolver       *net.Resolver // only its Dial is used; the system's name servers
	// Refuse reports whether an address with its port may not be connected to although the policy
	// allows it; nil: there is no such address. It is called just before each connection.
	Refuse func(ctx context.Context, to netip.AddrPort) bool
}

func (o Options) withDefaults() Options {
	o.MaxIdle = cmp.Or(o.MaxIdle, 5000)
	o.IdleTimeout = cmp.Or(o.IdleTimeout, 30*time.Second)
	o.ConnectTimeout = cmp.Or(o.ConnectTimeout, 5*time.Second)
	o.TLSTimeout = cmp.Or(o.TLSTimeout, 5*time.Second)
	return o
}

// Client posts callbacks. It is safe for concurrent use. The caller limits how many attempts run
// at once.
type Client struct {
	policy   *Policy
	dialer   *dialer
	pool     *pool
	targets  targets
	requests sync.Pool
	bodies   sync.Pool
}

// NewClient returns a client that connects only to addresses that p allows.
func (p *Policy) NewClient(o Options) *Client {
	o = o.withDefaults()
	return newClient(p, o, newDialer(p, o))
}

func newClient(p *Policy, o Options, d *dialer) *Client {
	return &Client{
		policy: p, dialer: d, pool: newPool(o),
		requests: sync.Pool{New: func() any { return new([]byte) }},
		bodies:   sync.Pool{New: func() any { return new([MaxKept]byte) }},
	}
}

// Close closes the idle connections. Attempts in flight go on.
func (c *Client) Close() { c.pool.close() }

// Request is one callback. Post keeps nothing of it when it has returned.
type Request struct {
	URL    string
	Header []Field
	Body   []byte
	// Timeout ends the attempt; 0, or more than 30 s: 30 s.
	Timeout time.Duration
	// Identity is shown to an https receiver; nil: none.
	Identity *Identity
	// Whole keeps MaxRead bytes of the answer's body.
	Whole bool
}

// Response is the result of an attempt: with an answer (Status is set) or without (Code and Err are set).
type Response struct {
	Status     int         // 200 to 599; 0: no valid answer
	RetryAfter []string    // values of the Retry-After header, as they came
	Header     http.Header // of the answer
	// Remote is the address that the attempt was connected to; not valid: there was no connection.
	Remote netip.AddrPort
	// CertificateExpires is when the receiver's certificate ends, as the connection saw it when it
	// was made; zero: there was no TLS handshake.
	CertificateExpires time.Time
	Phases             domain.Phases
	// Body has at most MaxKept bytes of the answer's body, unless Whole asks for more. It is valid
	// UTF-8 without U+0000.
	Body string
	// Truncated: the answer's body was longer than Body, or was replaced by text that takes more bytes.
	Truncated bool
	Code      Code
	Err       *Error // for the operator's log; customers get Err.Text()
}

// Post sends r once and reads the answer. It checks the URL again, connects to no address
// that the policy refuses, follows no redirect, and ends at the request's timeout or the
// context's deadline, whichever comes first.
func (c *Client) Post(ctx context.Context, r *Request) Response {
	deadline := time.Now().Add(maxAttempt)
	if r.Timeout > 0 && r.Timeout < maxAttempt {
		deadline = time.Now().Add(r.Timeout)
	}
	if at, ok := ctx.Deadline(); ok && at.Before(deadline) {
		deadline = at
	}
	to, err := c.targets.forURL(c.policy, r.URL)
	if err != nil {
		return refusedResponse(err)
	}
	buffer := c.requests.Get().(*[]byte) //nolint:errcheck // the pool holds nothing else
	defer c.requests.Put(buffer)
	first, rest, err := to.request((*buffer)[:0], r)
	if err != nil {
		return failedResponse(ctx, err)
	}
	*buffer = first[:0]
	var phases domain.Phases
	w, err := c.connect(ctx, deadline, to, r.Identity, &phases)
	if err != nil {
		response := failedResponse(ctx, err)
		response.Phases = phases
		return response
	}
	response := c.exchange(ctx, deadline, w, first, rest, r.Whole)
	response.Remote, response.CertificateExpires = w.remote, w.expires
	response.Phases.DNS, response.Phases.Connect, response.Phases.TLS = phases.DNS, phases.Connect, phases.TLS
	return response
}

// exchange sends a request over a connection, reads the answer, and keeps the connection if
// it can be used again.
func (c *Client) exchange(ctx context.Context, deadline time.Time, w *wire, first, rest []byte, all bool) Response {
	began := time.Now()
	answer, whole, err := w.exchange(ctx, deadline, first, rest) //nolint:bodyclose // Close would read all of it: the connection is closed
	if err != nil {
		_ = w.conn.Close()
		response := failedResponse(ctx, err)
		response.Phases.FirstByte = w.sinceFirst(began)
		return response
	}
	if answer.StatusCode < 200 || answer.StatusCode > 599 {
		// The body is not read: after a 101 reading could take as long as the receiver likes.
		_ = w.conn.Close()
		return Response{Code: CodeBadStatus, Err: &Error{Code: CodeBadStatus}, Phases: domain.Phases{FirstByte: w.sinceFirst(began)}}
	}
	response := Response{Status: answer.StatusCode, RetryAfter: answer.Header["Retry-After"], Header: answer.Header}
	response.Phases.FirstByte = w.sinceFirst(began)
	done := answer.ContentLength == 0
	if !done {
		done = c.readBody(&response, answer, all)
		response.Phases.Body = time.Since(w.first)
	}
	if done && whole && !answer.Close && w.isClean() {
		c.pool.put(w)
	} else {
		_ = w.conn.Close()
	}
	return response
}

// connect returns an idle connection, or a new one.
func (c *Client) connect(ctx context.Context, deadline time.Time, to *target, as *Identity, phases *domain.Phases) (*wire, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	at := poolKey{to.address, as}
	if w := c.pool.takeIdle(at); w != nil {
		return w, nil
	}
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	var conn net.Conn
	var err error
	if to.secure {
		conn, err = c.dialer.openTLS(ctx, to.hostPort, as, phases)
	} else {
		conn, err = c.dialer.open(ctx, to.hostPort, phases)
	}
	if err != nil {
		return nil, err
	}
	return newWire(conn, at), nil
}

func failedResponse(ctx context.Context, err error) Response {
	failure := classify(ctx, err)
	return Response{Code: failure.Code, Err: failure}
}

func refusedResponse(err error) Response {
	code := CodeURL
	if errors.Is(err, ErrAddress) {
		code = CodeAddress
	}
	return Response{Code: code, Err: &Error{Code: code, cause: err}}
}

// readBody reads the body into the response, within its bounds; done reports whether the answer ended
// within the bytes that may be read.
func (c *Client) readBody(into *Response, answer *http.Response, all bool) (done bool) {
	var buffer []byte
	if all {
		buffer = make([]byte, MaxRead)
	} else {
		pooled := c.bodies.Get().(*[MaxKept]byte) //nolint:errcheck // the pool holds nothing else
		defer c.bodies.Put(pooled)
		buffer = pooled[:]
	}
	n, cut, done := drain(answer.Body, buffer)
	into.Body, into.Truncated = cleanText(buffer[:n], cut)
	return done
}

// cleanText makes text that a database can store of what a receiver sent, in at most MaxKept bytes.
// truncated: the body was cut before, or had to be cut here.
func cleanText(raw []byte, cut bool) (text string, truncated bool) {
	if cut {
		raw = trimPartialRune(raw)
	}
	if utf8.Valid(raw) && bytes.IndexByte(raw, 0) < 0 {
		return string(raw), cut
	}
	text = strings.ReplaceAll(strings.ToValidUTF8(string(raw), "\uFFFD"), "\x00", "")
	if len(text) > MaxKept {
		return string(trimPartialRune([]byte(text[:MaxKept]))), true
	}
	return text, cut
}

// trimPartialRune drops the first bytes of a character that a cut has left at the end.
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
