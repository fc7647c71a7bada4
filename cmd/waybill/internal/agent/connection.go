package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/tunnel"
)

const (
	// openTime bounds the opening of a connection.
	openTime = 10 * time.Second
	// maxProblem bounds how much of a refusal is read, in bytes.
	maxProblem = 16 << 10
	windowSize = 8 << 20 // bytes under way from the gateway, over all requests
	frameSize  = 256 << 10
)

// connection is one to a gateway.
type connection struct {
	raw    net.Conn
	server *http.Server
	log    *slog.Logger
	left   chan struct{} // closed when the gateway sends no new requests on the connection
	once   sync.Once
	why    atomic.Pointer[string]
}

// open opens a connection to the gateway. It fails with a *RefusedError if the gateway refuses the
// token.
func (a *agent) open(ctx context.Context) (*connection, error) {
	to, err := connectURL(a.Gateway)
	if err != nil {
		return nil, err
	}
	opening, cancel := context.WithTimeout(ctx, openTime)
	defer cancel()
	//nolint:bodyclose // refusal closes the body; a connection has none
	socket, answer, err := websocket.Dial(opening, to.String(), &websocket.DialOptions{
		HTTPClient: a.dialer, Subprotocols: []string{tunnel.Protocol}, CompressionMode: websocket.CompressionDisabled,
		HTTPHeader: http.Header{"Authorization": {"Bearer " + a.Token.Reveal()}, tunnel.VersionHeader: {a.Version}},
	})
	if err != nil {
		return nil, refusal(answer, err)
	}
	if socket.Subprotocol() != tunnel.Protocol {
		_ = socket.CloseNow()
		return nil, errors.New("the gateway speaks another protocol of tunnels")
	}
	c := &connection{raw: websocket.NetConn(context.WithoutCancel(ctx), socket, websocket.MessageBinary), log: a.Logger, left: make(chan struct{})}
	c.server = a.serverOf(c)
	a.Logger.Info("connected to the gateway", "gateway", a.Gateway.Host)
	return c, nil
}

// refusal returns the error for a gateway that answered instead of opening a connection.
func refusal(answer *http.Response, err error) error {
	if answer == nil || answer.Body == nil {
		return fmt.Errorf("connect to the gateway: %w", err)
	}
	defer func() { _ = answer.Body.Close() }()
	var told struct {
		Detail string `json:"detail"`
	}
	if text, readErr := io.ReadAll(io.LimitReader(answer.Body, maxProblem)); readErr == nil {
		_ = json.Unmarshal(text, &told) // without a detail the status says enough
	}
	if told.Detail == "" {
		told.Detail = "status " + answer.Status
	}
	if answer.StatusCode == http.StatusUnauthorized {
		return &RefusedError{told.Detail}
	}
	return fmt.Errorf("connect to the gateway: %s", told.Detail) //nolint:err113 // it is a text for people
}

// serverOf returns the server that answers the gateway's requests on a connection.
func (a *agent) serverOf(c *connection) *http.Server {
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	s := &services{allow: a.Allow, allowAny: a.AllowAny, log: a.Logger, transport: a.transport, leave: c.leave}
	return &http.Server{
		Handler: s, Protocols: protocols, MaxHeaderBytes: tunnel.MaxHeader, ReadHeaderTimeout: openTime,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: tunnel.Streams, SendPingTimeout: tunnel.PingAfter, PingTimeout: tunnel.PingTime, WriteByteTimeout: tunnel.PingTime,
			MaxReceiveBufferPerStream: tunnel.Window, MaxReceiveBufferPerConnection: windowSize, MaxReadFrameSize: frameSize,
		},
		ErrorLog: slog.NewLogLogger(a.Logger.Handler(), slog.LevelDebug),
	}
}

// leave notes that the gateway sends no new requests on this connection.
func (c *connection) leave(reason string) {
	c.why.CompareAndSwap(nil, &reason)
	c.once.Do(func() { close(c.left) })
}

func (c *connection) asked() bool {
	select {
	case <-c.left:
		return true
	default:
		return false
	}
}

func (c *connection) reason() string {
	if why := c.why.Load(); why != nil {
		return *why
	}
	return "it was closed"
}

// serve answers on the connection until it is closed. When ctx ends, requests that run have
// domain.TunnelDrainTime to end.
func (c *connection) serve(ctx context.Context) {
	listener := &single{conn: c.raw, closed: make(chan struct{})}
	stopped := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(stopped)
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), domain.TunnelDrainTime)
		defer cancel()
		_ = c.server.Shutdown(ending)
		_ = c.raw.Close()
	})
	_ = c.server.Serve(listener) // it ends with the connection
	if !stop() {
		<-stopped
	}
	_ = c.server.Close()
	_ = c.raw.Close()
}

// single is a listener that returns one connection, and ends with it.
type single struct {
	conn   net.Conn
	given  atomic.Bool
	closed chan struct{}
	once   sync.Once
}

// Accept returns the connection, and then waits until it is closed.
func (s *single) Accept() (net.Conn, error) {
	if !s.given.Swap(true) {
		return &told{s.conn, s}, nil
	}
	<-s.closed
	return nil, net.ErrClosed
}

// Close ends the waiting.
func (s *single) Close() error {
	s.once.Do(func() { close(s.closed) })
	return nil
}

// Addr implements net.Listener.
func (s *single) Addr() net.Addr { return s.conn.LocalAddr() }

// told is a connection that closes its listener when it is closed.
type told struct {
	net.Conn

	listener *single
}

// Close implements net.Conn.
func (t *told) Close() error {
	err := t.Conn.Close()
	_ = t.listener.Close()
	return err //nolint:wrapcheck // as it is
}
