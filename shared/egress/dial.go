package egress

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"

	"waybill.dev/shared/domain"
)

// maxAddresses is how many addresses of a name are tried. All addresses are checked.
const maxAddresses = 8

// dialer connects to addresses that a policy allows. It resolves a name once for a connection, and
// dials one of the addresses that were checked.
type dialer struct {
	// allowed reports whether an address may be connected to.
	allowed  func(netip.Addr) bool
	refuse   func(context.Context, netip.AddrPort) bool // nil: refuses no others
	resolver *net.Resolver
	net      net.Dialer
	tls      *tls.Config
	timeout  time.Duration // for look-up and connection together
	tlsLimit time.Duration
	// observe, in tests, gets each address before it is connected to, and may refuse it.
	observe func(netip.AddrPort) error
}

func newDialer(p *Policy, o Options) *dialer { return newGuardedDialer(p.Allowed, o) }

func newGuardedDialer(allowed func(netip.Addr) bool, o Options) *dialer {
	d := &dialer{allowed: allowed, refuse: o.Refuse, resolver: promptResolver(o.Resolver), timeout: o.ConnectTimeout, tlsLimit: o.TLSTimeout}
	d.net = net.Dialer{KeepAlive: 30 * time.Second, ControlContext: d.control}
	d.tls = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: o.RootCAs, NextProtos: []string{"http/1.1"}}
	return d
}

// promptResolver returns a resolver that stops as soon as its look-up is cancelled: Go's own goes
// on reading from a silent name server for 5 s. It never uses the C library, whose resolver takes
// 0x7f.1 for an address.
func promptResolver(base *net.Resolver) *net.Resolver {
	connect := (&net.Dialer{}).DialContext
	if base != nil && base.Dial != nil {
		connect = base.Dial
	}
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := connect(ctx, network, address)
		if err == nil {
			context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
		}
		return conn, err
	}}
}

// control is the last guard: it checks the address of every connection just before the connection
// is made, wherever that address came from.
func (d *dialer) control(ctx context.Context, _, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil || to.Port() == 0 || !d.allowed(to.Addr()) || d.refuse != nil && d.refuse(ctx, to) {
		return fmt.Errorf("%w: %s", ErrAddress, address)
	}
	if d.observe != nil {
		return d.observe(to)
	}
	return nil
}

// dial connects to host:port.
func (d *dialer) dial(ctx context.Context, _, address string) (net.Conn, error) {
	return d.open(ctx, address, &domain.Phases{})
}

// open does the same, and sets how long each phase took.
func (d *dialer) open(ctx context.Context, address string, phases *domain.Phases) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, &Error{Code: CodeAddress, cause: err}
	}
	began := time.Now()
	addrs, err := d.lookup(ctx, host)
	if _, literal := netip.ParseAddr(host); literal != nil {
		phases.DNS = time.Since(began)
	}
	if err != nil {
		return nil, err
	}
	began = time.Now()
	defer func() { phases.Connect = time.Since(began) }()
	var first error
	for i, addr := range addrs {
		conn, err := d.connect(ctx, addr, port, len(addrs)-i)
		if err == nil {
			return conn, nil
		}
		if first == nil {
			first = err
		}
	}
	return nil, connectError(first)
}

// connect tries one address, within its share of the time that is left.
func (d *dialer) connect(ctx context.Context, addr netip.Addr, port string, left int) (net.Conn, error) {
	if deadline, ok := ctx.Deadline(); ok && left > 1 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(deadline)/time.Duration(left))
		defer cancel()
	}
	return d.net.DialContext(ctx, "tcp", net.JoinHostPort(addr.String(), port))
}

// lookup returns the addresses of host, all of which are allowed. A name with a public and another
// address is refused, because the next connection might get the other one.
func (d *dialer) lookup(ctx context.Context, host string) ([]netip.Addr, error) {
	addrs := []netip.Addr{}
	if addr, err := netip.ParseAddr(host); err == nil {
		addrs = append(addrs, addr)
	} else if addrs, err = d.resolver.LookupNetIP(ctx, "ip", host); err != nil {
		return nil, &Error{Code: CodeDNS, cause: err}
	}
	for i, addr := range addrs {
		addrs[i] = addr.Unmap()
		if !d.allowed(addr) {
			return nil, &Error{Code: CodeAddress, cause: fmt.Errorf("%w: %s has %s", ErrAddress, host, addr)}
		}
	}
	if len(addrs) == 0 {
		return nil, &Error{Code: CodeDNS, cause: errors.New("the name has no address")}
	}
	return addrs[:min(len(addrs), maxAddresses)], nil
}

// dialTLS connects to host:port and does the TLS handshake.
func (d *dialer) dialTLS(ctx context.Context, _, address string) (net.Conn, error) {
	return d.openTLS(ctx, address, nil, &domain.Phases{})
}

// openTLS does the same, and sets how long each phase took.
func (d *dialer) openTLS(ctx context.Context, address string, as *Identity, phases *domain.Phases) (net.Conn, error) {
	raw, err := d.open(ctx, address, phases)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	defer func() { phases.TLS = time.Since(began) }()
	host, _, _ := net.SplitHostPort(address) // dial has split it before
	config := d.tls.Clone()
	config.ServerName = host
	as.applyTo(config)
	conn := tls.Client(raw, config)
	ctx, cancel := context.WithTimeout(ctx, d.tlsLimit)
	defer cancel()
	if err := conn.HandshakeContext(ctx); err != nil {
		_ = raw.Close()
		return nil, &Error{Code: CodeTLS, cause: err}
	}
	return conn, nil
}

func connectError(err error) *Error {
	e := &Error{Code: CodeConnect, cause: err}
	var timeout net.Error
	switch {
	case errors.Is(err, ErrAddress):
		e.Code = CodeAddress
	case errors.Is(err, syscall.ECONNREFUSED):
		e.Code = CodeRefused
	case errors.As(err, &timeout) && timeout.Timeout():
		e.Code = CodeConnectTimeout
	}
	return e
}
