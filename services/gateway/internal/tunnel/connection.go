package tunnel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store/tunnels"
	"waybill.dev/shared/tunnel"
)

const (
	// beginTime bounds the beginning of HTTP/2 on a connection.
	beginTime = 5 * time.Second
	// leaveTime bounds the telling of an agent that its connection ends.
	leaveTime = 2 * time.Second
	// maxReason bounds the part of an agent's reason that is kept, in bytes.
	maxReason = 1 << 10
	// maxCloseReason is how long the reason in a WebSocket's last frame may be.
	maxCloseReason = 120
	// windowBytes bounds the unread bytes from an agent, over all its answers.
	windowBytes = 8 << 20
	// frameBytes is the maximum size of a frame.
	frameBytes = 256 << 10
)

// closing describes the end of a connection.
type closing struct {
	reason string
	code   int           // status code of the WebSocket; 0: the gateway goes away
	drain  time.Duration // how long requests may still run
}

// connection is one of an agent.
type connection struct {
	id, tunnel string
	hashes     [][]byte // hashes of its token
	owner      *Tunnels
	socket     *websocket.Conn
	raw        net.Conn
	client     *http.ClientConn
	stop       context.CancelFunc
	done       chan struct{} // closed when the connection accepts no requests and none runs
	ended      sync.Once     // closes done
	running    atomic.Int64  // number of requests whose answer has not been read yet
	leaving    atomic.Bool   // the connection accepts no new requests
	why        atomic.Pointer[closing]
	unchecked  atomic.Bool // the token must be checked again

	giving           sync.Mutex // held while the agent is given a configuration
	acceptedServices string     // the last configuration that the agent accepted
	answer           string     // the operation that the agent has answered

	mu    sync.Mutex
	timer *time.Timer // runs until the token ends
}

func newConnection(t *Tunnels, made tunnels.Connection, hashes [][]byte, socket *websocket.Conn) *connection {
	ctx, stop := context.WithCancel(context.Background())
	c := &connection{
		id: made.ID, tunnel: made.Tunnel.ID, hashes: hashes, owner: t, socket: socket, stop: stop, done: make(chan struct{}),
		raw: &watchedConn{Conn: websocket.NetConn(ctx, socket, websocket.MessageBinary)},
	}
	c.unchecked.Store(true)
	return c
}

// begin starts HTTP/2. Its dialer returns the agent's connection once and never dials.
func (c *connection) begin() error {
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	var given atomic.Bool
	transport := &http.Transport{
		Protocols: protocols, DisableCompression: true, MaxResponseHeaderBytes: tunnel.MaxHeader,
		HTTP2: &http.HTTP2Config{
			SendPingTimeout: tunnel.PingAfter, PingTimeout: tunnel.PingTime, WriteByteTimeout: tunnel.PingTime,
			MaxReceiveBufferPerStream: tunnel.Window, MaxReceiveBufferPerConnection: windowBytes, MaxReadFrameSize: frameBytes,
		},
		DialContext: func(context.Context, string, string) (net.Conn, error) {
			if given.Swap(true) {
				return nil, errors.New("the connection of an agent is there once")
			}
			return c.raw, nil
		},
	}
	ctx, cancel := context.WithTimeout(context.Background(), beginTime)
	defer cancel()
	client, err := transport.NewClientConn(ctx, "http", tunnel.ControlHost+":80")
	if err != nil {
		return fmt.Errorf("begin HTTP/2: %w", err)
	}
	c.client = client
	client.SetStateHook(func(client *http.ClientConn) {
		if client.Err() != nil {
			c.finish(closing{reason: "the connection is closed: " + client.Err().Error()})
		} else if client.Available() == 0 && client.InFlight() == 0 && c.running.Load() == 0 {
			c.finish(closing{reason: "the agent takes no more requests"})
		}
	})
	return nil
}

// finish marks the connection as ended.
func (c *connection) finish(why closing) {
	c.leaving.Store(true)
	c.why.CompareAndSwap(nil, &why)
	c.ended.Do(func() { close(c.done) })
}

// reason says why the connection has ended.
func (c *connection) reason() string {
	if why := c.why.Load(); why != nil {
		return why.reason
	}
	return "unknown"
}

// close closes the connection.
func (c *connection) close() {
	c.finish(closing{reason: "it has ended"})
	c.mu.Lock()
	if c.timer != nil {
		c.timer.Stop()
	}
	c.mu.Unlock()
	why := c.why.Load()
	if why.code != 0 {
		_ = c.socket.Close(websocket.StatusCode(why.code), why.reason[:min(len(why.reason), maxCloseReason)])
	}
	_ = c.socket.CloseNow()
	if c.client != nil {
		_ = c.client.Close()
	}
	c.stop()
}

// leave stops new requests and tells the agent. The connection ends when its running requests are done, or when
// the time for them is over.
func (c *connection) leave(why closing) {
	if c.leaving.Swap(true) {
		return
	}
	c.why.CompareAndSwap(nil, &why)
	c.owner.work.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), leaveTime)
		_, _ = c.control(ctx, http.MethodPost, tunnel.LeavePath, why.reason)
		cancel()
		limit := time.NewTimer(why.drain)
		defer limit.Stop()
		look := time.NewTicker(drainLook)
		defer look.Stop()
		for c.running.Load() > 0 {
			select {
			case <-c.done:
				return
			case <-limit.C:
				c.finish(why)
				return
			case <-look.C:
			}
		}
		c.finish(why)
	})
}

// drainLook is the time between two checks whether requests still run.
const drainLook = 20 * time.Millisecond

// control sends a request to the agent itself, and returns the status and the text of its answer.
func (c *connection) control(ctx context.Context, method, path, body string) (status int, reason string) {
	request, err := http.NewRequestWithContext(ctx, method, "http://"+tunnel.ControlHost+path, strings.NewReader(body))
	if err != nil {
		return 0, err.Error()
	}
	answer, err := c.client.RoundTrip(request)
	if err != nil {
		return 0, "the agent does not answer"
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxReason))
	if err != nil {
		return 0, "the agent's answer breaks off"
	}
	return answer.StatusCode, printable(string(text))
}

// printable returns an agent's text with a space for each control character, and ? for bytes that are no UTF-8.
func printable(text string) string {
	return strings.ToValidUTF8(strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, text), "?")
}

// sendServices sends the agent a services configuration. It returns the reason if the agent refuses it, and an empty
// text if the agent accepts it.
func (c *connection) sendServices(services domain.TunnelServices) (refused string) {
	document, err := json.Marshal(services)
	if err != nil {
		return err.Error()
	}
	c.giving.Lock()
	defer c.giving.Unlock()
	if string(document) == c.acceptedServices {
		return ""
	}
	ctx, cancel := context.WithTimeout(context.Background(), domain.TunnelConfigureTime)
	defer cancel()
	status, reason := c.control(ctx, http.MethodPut, tunnel.ServicesPath, string(document))
	switch {
	case status == http.StatusNoContent:
		c.acceptedServices = string(document)
		return ""
	case reason == "":
		return fmt.Sprintf("the agent answers %d", status)
	}
	return reason
}

// provide sends the agent its configuration. If an operation is open, it sends the next configuration and stores the
// agent's answer. Otherwise it sends the current one. t.mu is held.
func (t *Tunnels) provide(c *connection, served tunnels.ServedTunnel) {
	t.work.Go(func() {
		if served.Next == nil {
			if refused := c.sendServices(served.Services); refused != "" && !c.leaving.Load() {
				c.leave(closing{reason: "the agent refuses the services configuration: " + refused, code: tunnel.CloseRefused, drain: domain.TunnelDrainTime})
			}
			return
		}
		refused := c.sendServices(*served.Next)
		if !c.isFirstAnswer(served.Operation) {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), storeTime)
		defer cancel()
		if err := t.options.Store.AnswerConfiguration(ctx, c.id, served.Operation, refused); err != nil {
			t.options.Logger.Debug("the answer of an agent is not noted", "tunnel", c.tunnel, "error", err)
			return
		}
		t.settleOne(ctx, c.tunnel)
	})
}

// isFirstAnswer reports whether this is the agent's first answer to an operation.
func (c *connection) isFirstAnswer(operation string) bool {
	c.giving.Lock()
	defer c.giving.Unlock()
	if c.answer == operation {
		return false
	}
	c.answer = operation
	return true
}

// tokenEnd returns when the connection's token ends; ok is false if the token is not valid.
func (c *connection) tokenEnd(valid map[string]time.Time) (end time.Time, ok bool) {
	for _, hash := range c.hashes {
		if end, ok = valid[string(hash)]; ok {
			return end, true
		}
	}
	return time.Time{}, false
}

// checkAt calls check at the time when the token ends. A zero time means that the token has no end.
func (c *connection) checkAt(end time.Time, check func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timer != nil {
		c.timer.Stop()
		c.timer = nil
	}
	if !end.IsZero() && !c.leaving.Load() {
		c.timer = time.AfterFunc(time.Until(end), check)
	}
}

// toAgent returns the request that the agent gets: r, addressed to the service of that name.
func toAgent(ctx context.Context, r *http.Request, name string) *http.Request {
	out := r.WithContext(ctx)
	out.URL = &url.URL{Scheme: "http", Host: name, Path: r.URL.Path, RawPath: r.URL.RawPath, RawQuery: r.URL.RawQuery, ForceQuery: r.URL.ForceQuery}
	out.Host = name
	return out
}
