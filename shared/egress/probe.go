package egress

import (
	"context"
	"crypto/tls"
	"net"
	"net/netip"
	"strconv"
	"time"

	"waybill.dev/shared/domain"
)

// Probe is what a connection to a receiver shows before a request is sent.
type Probe struct {
	Addresses []netip.Addr // of the name; all are allowed
	Remote    netip.AddrPort
	TLS       *tls.ConnectionState // nil: http
	Phases    domain.Phases
}

// Probe connects to the receiver as Post does, by the same rules, and sends nothing. If it fails,
// it returns what it has learned together with the error.
func (c *Client) Probe(ctx context.Context, raw string) (Probe, *Error) {
	var p Probe
	to, err := c.targets.forURL(c.policy, raw)
	if err != nil {
		return p, refusedResponse(err).Err
	}
	host, _, err := net.SplitHostPort(to.hostPort)
	if err != nil {
		return p, &Error{Code: CodeURL, cause: err}
	}
	if p.Addresses, err = c.dialer.lookup(ctx, host); err != nil {
		return p, classify(ctx, err)
	}
	open := c.dialer.open
	if to.secure {
		open = func(ctx context.Context, address string, phases *domain.Phases) (net.Conn, error) {
			return c.dialer.openTLS(ctx, address, nil, phases)
		}
	}
	conn, err := open(ctx, to.hostPort, &p.Phases)
	if err != nil {
		return p, classify(ctx, err)
	}
	defer conn.Close()
	if at, ok := conn.RemoteAddr().(*net.TCPAddr); ok {
		p.Remote = netip.AddrPortFrom(at.AddrPort().Addr().Unmap(), at.AddrPort().Port())
	}
	if secure, ok := conn.(*tls.Conn); ok {
		state := secure.ConnectionState()
		p.TLS = &state
	}
	return p, nil
}

// Callback has the values of the headers that every callback has.
type Callback struct {
	UserAgent string
	ID        string // webhook-id
	At        time.Time
	Signature string
	Delivery  string
	Attempt   int
}

// AppendTo appends the headers of the callback. The names of Standard Webhooks are in lower case,
// as in its specification.
func (c Callback) AppendTo(h []Field) []Field {
	return append(h,
		Field{Name: "Content-Type", Value: "application/json"},
		Field{Name: "User-Agent", Value: c.UserAgent},
		Field{Name: "webhook-id", Value: c.ID},
		Field{Name: "webhook-timestamp", Value: strconv.FormatInt(c.At.Unix(), 10)},
		Field{Name: "webhook-signature", Value: c.Signature},
		Field{Name: "Waybill-Delivery-Id", Value: c.Delivery},
		Field{Name: "Waybill-Attempt", Value: strconv.Itoa(c.Attempt)})
}
