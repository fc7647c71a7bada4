package tunnel_test

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"waybill.dev/services/gateway/gatewaytest"
	"waybill.dev/services/gateway/internal/tunnel"
	"waybill.dev/services/gateway/internal/upstream"
	"waybill.dev/shared/bus"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/store/tunnels"
	agreed "waybill.dev/shared/tunnel"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// memory is a store with one tunnel, and a bus without anybody else.
type memory struct {
	mu          sync.Mutex
	connections int
	ended       int
}

var services = domain.TunnelServices{Version: 1, Services: []domain.TunnelService{{
	Name: "orders", Endpoint: "http://x", Configurations: []domain.TunnelAccess{{Project: "shop", AccessibleBy: []string{"production"}}},
}}}

func (m *memory) served() tunnels.ServedTunnel {
	return tunnels.ServedTunnel{ID: "tun_1", Account: "default", Services: services}
}

func (m *memory) ServedTunnels(_ context.Context, since int64) ([]tunnels.ServedTunnel, int64, error) {
	if since > 0 {
		return nil, 1, nil
	}
	return []tunnels.ServedTunnel{m.served()}, 1, nil
}

func (*memory) SettleTunnel(context.Context, string) (bool, error) { return false, nil }

func (m *memory) ConnectTunnel(context.Context, [][]byte, domain.TunnelConnection) (tunnels.Connection, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.connections++
	return tunnels.Connection{ID: "tcn_1", Tunnel: m.served()}, nil
}

func (*memory) TunnelTokens(_ context.Context, hashes [][]byte) (map[string]time.Time, error) {
	valid := make(map[string]time.Time)
	for _, h := range hashes {
		valid[string(h)] = time.Time{}
	}
	return valid, nil
}

func (*memory) RenewConnections(context.Context, []string) error { return nil }

func (m *memory) EndConnection(context.Context, string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ended++
	return nil
}

func (*memory) AnswerConfiguration(context.Context, string, string, string) error { return nil }

func (*memory) Announce(string, []byte)                     {}
func (*memory) Listen(string, func([]byte)) (func(), error) { return func() {}, nil }
func (*memory) Reconnects() (<-chan struct{}, func())       { return nil, func() {} }
func (*memory) Sync(context.Context) error                  { return nil }
func (*memory) SendPart(bus.Part) error                     { return domain.ErrUnavailable }
func (*memory) Hashes(token string) [][]byte                { return [][]byte{[]byte(token)} }
func (*memory) TakeParts(string, string, func(bus.Part)) (func(), error) {
	return func() {}, nil
}

func (m *memory) gone() (connections, ended int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.connections, m.ended
}

type rig struct {
	*memory

	t       *testing.T
	tunnels *tunnel.Tunnels
	url     string
}

func newRig(t *testing.T) *rig {
	t.Helper()
	m := &memory{}
	r := &rig{memory: m, t: t, tunnels: tunnel.New(tunnel.Options{
		Store: m, Bus: m, Hasher: m, Process: "test", Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry(),
	})}
	server := httptest.NewServer(r.tunnels)
	r.url = server.URL
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.tunnels.Run(ctx) }()
	t.Cleanup(func() {
		server.Close()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return r
}

// dial opens a connection as an agent.
func (r *rig) dial() (net.Conn, error) {
	r.t.Helper()
	socket, answer, err := websocket.Dial(r.t.Context(), r.url+agreed.ConnectPath, &websocket.DialOptions{
		HTTPClient: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, Subprotocols: []string{agreed.Protocol},
		HTTPHeader: http.Header{"Authorization": {"Bearer " + token.Reveal()}},
	})
	if err != nil {
		if answer != nil && answer.Body != nil {
			_ = answer.Body.Close()
		}
		return nil, err
	}
	conn := websocket.NetConn(context.Background(), socket, websocket.MessageBinary)
	r.t.Cleanup(func() { _ = socket.CloseNow() })
	return conn, nil
}

var token = agreed.NewToken()

// hostile is an agent that is made by hand. It takes the configuration, and then does as it likes.
type hostile struct {
	net.Conn

	framer *http2.Framer
}

func (r *rig) hostile() *hostile {
	r.t.Helper()
	conn, err := r.dial()
	if err != nil {
		r.t.Fatal(err)
	}
	h := &hostile{conn, http2.NewFramer(conn, conn)}
	preface := make([]byte, len(http2.ClientPreface))
	if _, err := io.ReadFull(conn, preface); err != nil {
		r.t.Fatal(err)
	}
	if err := h.framer.WriteSettings(); err != nil {
		r.t.Fatal(err)
	}
	for {
		stream, err := h.request()
		if err != nil {
			r.t.Fatal(err)
		}
		if stream > 0 {
			h.answer(stream, "204")
			return h
		}
	}
}

// request reads a frame, and returns the stream of a request that has ended with it.
func (h *hostile) request() (uint32, error) {
	frame, err := h.framer.ReadFrame()
	if err != nil {
		return 0, err
	}
	switch f := frame.(type) {
	case *http2.SettingsFrame:
		if !f.IsAck() {
			return 0, h.framer.WriteSettingsAck()
		}
	case *http2.HeadersFrame:
		if f.StreamEnded() {
			return f.StreamID, nil
		}
	case *http2.DataFrame:
		if f.StreamEnded() {
			return f.StreamID, nil
		}
	}
	return 0, nil
}

func (h *hostile) answer(stream uint32, status string) {
	var block writer
	_ = hpack.NewEncoder(&block).WriteField(hpack.HeaderField{Name: ":status", Value: status})
	_ = h.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: block, EndHeaders: true, EndStream: true})
}

type writer []byte

func (w *writer) Write(p []byte) (int, error) {
	*w = append(*w, p...)
	return len(p), nil
}

// drain reads all that the gateway sends, so that it never waits for the agent.
func (h *hostile) drain() { _, _ = io.Copy(io.Discard, h.Conn) }

func (r *rig) ask(limit time.Duration) (*http.Response, error) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), limit)
	r.t.Cleanup(cancel)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "service://orders/x", http.NoBody)
	if err != nil {
		r.t.Fatal(err)
	}
	return r.tunnels.RoundTrip(upstream.Service{Account: "default", Project: "shop", Environment: domain.Production, Name: "orders"}, request)
}

// used is what the process has in memory.
func used() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// An agent that floods the gateway loses its connection, and costs no memory.
func TestFloodsOfAgents(t *testing.T) {
	for name, flood := range map[string]func(h *hostile) error{
		"pings": func(h *hostile) error { return h.framer.WritePing(false, [8]byte{1}) },
		"settings": func(h *hostile) error {
			return h.framer.WriteSettings(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 100})
		},
		"resets":     func(h *hostile) error { return h.framer.WriteRSTStream(1, http2.ErrCodeCancel) },
		"goaways":    func(h *hostile) error { return h.framer.WriteGoAway(1, http2.ErrCodeNo, nil) },
		"empty data": func(h *hostile) error { return h.framer.WriteData(1, false, nil) },
		"headers without an end": func(h *hostile) error {
			h.framer.AllowIllegalWrites = true
			return h.framer.WriteContinuation(1, false, make([]byte, 16<<10))
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			h := r.hostile()
			// Frames are sent together, or the agent would be too slow for a flood.
			h.framer = http2.NewFramer(bufio.NewWriterSize(h.Conn, 32<<10), h.Conn)
			go h.drain()
			before := used()
			if name == "headers without an end" {
				if err := h.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte{0x88}}); err != nil {
					t.Fatal(err)
				}
			}
			deadline := time.Now().Add(20 * time.Second)
			for flood(h) == nil {
				if time.Now().After(deadline) {
					t.Fatal("the gateway goes on with it")
				}
			}
			if after := used(); after > before+16<<20 {
				t.Errorf("it takes %d MB", (after-before)>>20)
			}
			gatewaytest.Within(t, 10*time.Second, "the connection is gone", func() bool {
				_, ended := r.gone()
				return ended == 1
			})
			if _, err := r.ask(time.Second); err == nil {
				t.Error("it is still asked")
			}
		})
	}
}

// An answer with headers that are too many fails, and holds nobody up.
func TestEndlessHeaders(t *testing.T) {
	r := newRig(t)
	h := r.hostile()
	go func() {
		for {
			stream, err := h.request()
			if err != nil {
				return
			}
			if stream == 0 {
				continue
			}
			var block writer
			encoder := hpack.NewEncoder(&block)
			_ = encoder.WriteField(hpack.HeaderField{Name: ":status", Value: "200"})
			for range 2000 {
				_ = encoder.WriteField(hpack.HeaderField{Name: "x-much", Value: string(make([]byte, 0)) + "0123456789012345678901234567890123456789", Sensitive: true})
			}
			first := block[:16<<10]
			if h.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: first}) != nil {
				return
			}
			for rest := block[len(first):]; len(rest) > 0; {
				n := min(len(rest), 16<<10)
				if h.framer.WriteContinuation(stream, n == len(rest), rest[:n]) != nil {
					return
				}
				rest = rest[n:]
			}
		}
	}()
	gatewaytest.Within(t, 10*time.Second, "the agent is asked", func() bool {
		_, err := r.ask(5 * time.Second)
		var failed *upstream.ServiceError
		return errors.As(err, &failed) && failed.Code == upstream.ServiceFailed
	})
}

// An agent that ends its connections at once is not let in as often as it likes.
func TestGoAwayLoop(t *testing.T) {
	r := newRig(t)
	refused := 0
	for range 100 {
		conn, err := r.dial()
		if err != nil {
			refused++
			continue
		}
		framer := http2.NewFramer(conn, conn)
		_ = framer.WriteSettings()
		_ = framer.WriteGoAway(0, http2.ErrCodeNo, nil)
		_ = conn.Close()
	}
	if made, _ := r.gone(); made > 70 || refused < 30 {
		t.Errorf("%d connections were made, %d refused", made, refused)
	}
}

// An agent that says nothing is given up, and what waits for it fails. Nobody else waits.
func TestSilence(t *testing.T) {
	r := newRig(t)
	h := r.hostile()
	conn, err := r.dial() // and one that does not even begin
	if err != nil {
		t.Fatal(err)
	}
	_ = conn
	began := time.Now()
	if _, err := r.ask(200 * time.Millisecond); err == nil {
		t.Error("a silent agent answers")
	}
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("it takes %s", took)
	}
	_ = h
	gatewaytest.Within(t, 26*time.Second, "both are gone", func() bool {
		_, ended := r.gone()
		return ended == 2
	})
	t.Logf("seen after %s", time.Since(began))
}

// What is no frame ends the connection.
func TestGarbage(t *testing.T) {
	r := newRig(t)
	h := r.hostile()
	garbage := binary.BigEndian.AppendUint64(nil, 0xffffffffffffffff)
	for range 100 {
		if _, err := h.Write(garbage); err != nil {
			break
		}
	}
	gatewaytest.Within(t, 10*time.Second, "the connection is gone", func() bool {
		_, ended := r.gone()
		return ended == 1
	})
}
