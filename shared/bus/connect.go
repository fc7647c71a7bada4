package bus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/singleflight"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/signal"
)

// Options say how to reach the bus and how to keep its streams.
type Options struct {
	// URL has the URLs of the servers, separated by commas; they may contain user and password.
	URL string
	// InProcess joins a server in this process instead of dialling URL.
	InProcess nats.InProcessConnProvider
	// Name is shown in the server's list of connections. The inbox prefix is _INBOX_<Name>.
	Name   string
	Logger *slog.Logger
	// MACKeys authenticate the events that api published to EVENTS; the first one signs.
	MACKeys [][]byte

	Replicas     int           // of each stream; 0: 1
	Retention    time.Duration // of EVENTS and REJECTED; 0: 72 h
	DedupeWindow time.Duration // of EVENTS; 0: 2 min
	// MaxBytes of EVENTS; 0: 8 GiB. Events that do not fit any more are refused.
	MaxBytes int64
}

// Bus is a connection to NATS with Waybill's streams. It reconnects for ever.
type Bus struct {
	options Options
	conn    *nats.Conn
	js      jetstream.JetStream
	log     *slog.Logger
	macs    []*eventMAC // of options.MACKeys

	mu      sync.Mutex
	handles map[string]jetstream.Stream // by name; those that were looked up
	sizes   map[string]int64            // of streams, as they were last made

	listeners []signal.Signal

	acks acks

	schedules, holds, orders *window // of RETRIES, HOLD and ORDER

	setAside atomic.Int64 // see SetAsides
	allDone  atomic.Pointer[eventsDone]
	missing  atomic.Pointer[NoRoomError]
	listing  singleflight.Group // of the consumers of EVENTS
}

// Connect opens the connection. It doesn't wait for the server: while no server answers, every call
// fails with domain.ErrUnavailable, and the connection goes on reconnecting.
func Connect(options Options) (*Bus, error) {
	options.Replicas = cmp.Or(options.Replicas, 1)
	options.Retention = cmp.Or(options.Retention, 72*time.Hour)
	options.DedupeWindow = cmp.Or(options.DedupeWindow, 2*time.Minute)
	options.MaxBytes = cmp.Or(options.MaxBytes, 8<<30)
	b := &Bus{
		options:   options,
		log:       options.Logger,
		handles:   make(map[string]jetstream.Stream),
		sizes:     make(map[string]int64),
		schedules: newWindow(StreamRetries, options.Logger), holds: newWindow(StreamHold, options.Logger),
		orders: newWindow(StreamOrder, options.Logger),
	}
	for _, key := range options.MACKeys {
		b.macs = append(b.macs, newEventMAC(key))
	}
	conn, err := b.dial(
		nats.ConnectHandler(func(*nats.Conn) { b.notifyReconnect() }),
		nats.ReconnectHandler(func(*nats.Conn) {
			b.log.Info("bus reconnected")
			b.notifyReconnect()
		}),
		nats.DisconnectErrHandler(func(conn *nats.Conn, err error) {
			if !conn.IsClosed() {
				b.acks.giveUpAll(nats.ErrDisconnected)
			}
			if err != nil {
				b.log.Warn("bus disconnected", "error", err)
			}
		}))
	if err != nil {
		return nil, err
	}
	js, err := jetstream.New(conn, jetstream.WithDefaultTimeout(publishTimeout))
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("open JetStream: %w", err)
	}
	b.conn, b.js, b.acks.conn = conn, js, conn
	return b, nil
}

// dial opens a connection that reconnects for ever.
func (b *Bus) dial(more ...nats.Option) (*nats.Conn, error) {
	opts := append([]nats.Option{
		nats.Name("waybill-" + b.options.Name),
		nats.CustomInboxPrefix("_INBOX_" + b.options.Name),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(250 * time.Millisecond),
		nats.ReconnectJitter(100*time.Millisecond, 100*time.Millisecond),
		nats.RetryOnFailedConnect(true),
		nats.Timeout(2 * time.Second),
		nats.PingInterval(5 * time.Second),
		nats.MaxPingsOutstanding(2),
		// Nothing is buffered while disconnected, because a publisher must learn that its message was not sent.
		nats.ReconnectBufSize(-1),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			b.log.Warn("bus error", "error", err)
		}),
	}, more...)
	if b.options.InProcess != nil {
		opts = append(opts, nats.InProcessServer(b.options.InProcess))
	}
	conn, err := nats.Connect(b.options.URL, opts...)
	if err != nil {
		return nil, fmt.Errorf("connect to the bus: %w", err)
	}
	return conn, nil
}

// Close closes the connection. Publications that are not acknowledged fail.
func (b *Bus) Close() {
	b.conn.Close()
	b.acks.giveUpAll(nats.ErrConnectionClosed)
}

// Addresses returns the known servers as host:port.
func (b *Bus) Addresses() []string {
	var addresses []string
	for _, server := range b.conn.Servers() {
		if u, err := url.Parse(server); err == nil {
			port := u.Port()
			if port == "" {
				port = strconv.Itoa(nats.DefaultPort)
			}
			addresses = append(addresses, net.JoinHostPort(u.Hostname(), port))
		}
	}
	return addresses
}

// Ready returns nil while the server answers, otherwise an error that wraps domain.ErrUnavailable.
func (b *Bus) Ready() error {
	if status := b.conn.Status(); status != nats.CONNECTED {
		return fmt.Errorf("bus is %s: %w", status, domain.ErrUnavailable)
	}
	return nil
}

// WaitReady waits until the server answers.
func (b *Bus) WaitReady(ctx context.Context) error {
	connected, stop := b.Reconnects()
	defer stop()
	for b.Ready() != nil {
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for the bus: %w", ctx.Err())
		case <-connected:
		case <-time.After(100 * time.Millisecond):
		}
	}
	return nil
}

// Reconnects returns a channel that gets a value after each connection and reconnection; values
// that were not received yet become one.
func (b *Bus) Reconnects() (c <-chan struct{}, stop func()) {
	listener := signal.New()
	b.mu.Lock()
	b.listeners = append(b.listeners, listener)
	b.mu.Unlock()
	return listener, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.listeners = slices.DeleteFunc(b.listeners, func(l signal.Signal) bool { return l == listener })
	}
}

func (b *Bus) notifyReconnect() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, listener := range b.listeners {
		listener.Give()
	}
}

// PublishRecords stores a batch of outcomes for the record stage and calls done exactly once.
func (b *Bus) PublishRecords(body []byte, done func(error)) {
	b.acks.publish(&nats.Msg{Subject: SubjectRecords, Data: body}, func(_ bool, err error) { done(err) })
}

// Server returns the id of the connected server, which changes with each start of the server;
// empty: none is connected.
func (b *Bus) Server() string { return b.conn.ConnectedServerId() }

// Announce publishes body on a core subject. The announcement may be lost.
func (b *Bus) Announce(subject string, body []byte) {
	if err := b.conn.Publish(subject, body); err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
		b.log.Debug("announcement lost", "subject", subject, "error", err)
	}
}

// hears is the last part of the subject on which a listener of ListenAnswering says, before it acts, that it has heard the
// announcer. Announcers of an earlier version receive only the answers.
const hears = ".hears"

// AnnounceAnswered is Announce that waits for the listeners of ListenAnswering. It ends when each listener that has heard
// the announcement has answered and nothing came from any listener for quiet, or after limit. It returns the number of
// answers. If there are no listeners, it returns at once.
func (b *Bus) AnnounceAnswered(ctx context.Context, subject string, body []byte, quiet, limit time.Duration) int {
	answers := make(chan *nats.Msg, 64)
	inbox := subjectAnswer + nats.NewInbox()
	reply := inbox + ".answer"
	sub, err := b.conn.ChanSubscribe(inbox+".>", answers)
	if err != nil {
		b.Announce(subject, body)
		return 0
	}
	defer func() { _ = sub.Unsubscribe() }()
	if err := b.conn.PublishRequest(subject, reply, body); err != nil {
		return 0
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	n := 0
	for heard := 0; ; {
		var silence <-chan time.Time
		if n > 0 && n >= heard {
			silence = time.After(quiet)
		}
		select {
		case m := <-answers:
			switch {
			case m.Header.Get("Status") != "": // from the server: there are no listeners
				return n
			case m.Subject != reply:
				heard++
			default:
				n++
			}
		case <-silence:
			return n
		case <-ctx.Done():
			return n
		}
	}
}

// ListenAnswering is Listen for listeners that answer when they have acted. answer does nothing
// when the announcer doesn't wait.
func (b *Bus) ListenAnswering(subject string, handle func(body []byte, answer func())) (stop func(), err error) {
	sub, err := b.conn.Subscribe(subject, func(m *nats.Msg) {
		if m.Reply == "" {
			handle(m.Data, func() {})
			return
		}
		b.Announce(m.Reply+hears, nil)
		handle(m.Data, func() { b.Announce(m.Reply, nil) })
	})
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", subject, err)
	}
	return func() { _ = sub.Unsubscribe() }, nil
}

// Sync returns when the server has handled everything that this process has sent to it,
// subscriptions of Listen included.
func (b *Bus) Sync(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	if err := b.conn.FlushWithContext(ctx); err != nil {
		return unavailable("reach the bus", err)
	}
	return nil
}

// Listen calls handle with the body of each announcement on subject until stop is called.
func (b *Bus) Listen(subject string, handle func(body []byte)) (stop func(), err error) {
	sub, err := b.conn.Subscribe(subject, func(m *nats.Msg) { handle(m.Data) })
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", subject, err)
	}
	return func() { _ = sub.Unsubscribe() }, nil
}

func unavailable(doing string, err error) error {
	return fmt.Errorf("%s: %w", doing, errors.Join(domain.ErrUnavailable, err))
}
