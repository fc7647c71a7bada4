package boot_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"waybill.dev/cmd/internal/boot"
)

// serve runs a server until the test ends, and returns its address.
func serve(t *testing.T, o boot.ServerOptions) string {
	t.Helper()
	o.Name, o.Addr, o.Logger = "HTTP", "127.0.0.1:0", quiet
	server, err := boot.Listen(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return strings.TrimPrefix(server.URL(), "http://")
}

var fine = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	_, _ = io.WriteString(w, "fine")
})

// client is a connection from one of this machine's own addresses.
type client struct {
	t      *testing.T
	conn   net.Conn
	answer *bufio.Reader
}

func connect(t *testing.T, from, to string) *client {
	t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: 10 * time.Second}
	conn, err := dialer.DialContext(t.Context(), "tcp", to)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	return &client{t: t, conn: conn, answer: bufio.NewReader(conn)}
}

// served asks for something, and reports whether there was an answer.
func (c *client) served() bool {
	c.t.Helper()
	_, _ = io.WriteString(c.conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	response, err := http.ReadResponse(c.answer, nil)
	if err != nil {
		if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
			c.t.Fatal("neither an answer nor an end")
		}
		return false
	}
	_, _ = io.Copy(io.Discard, response.Body)
	return response.Body.Close() == nil
}

func counted(t *testing.T, registry *prometheus.Registry, name, reason string) float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				if family.GetName() == name && (reason == "" || label.GetValue() == reason) {
					return metric.GetGauge().GetValue() + metric.GetCounter().GetValue()
				}
			}
		}
	}
	return 0
}

// One client has a quarter of the connections, all clients together have all; what is
// beyond is closed at once, and counted; what is closed makes room.
func TestConnectionsAreCapped(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	to := serve(t, boot.ServerOptions{Handler: fine, MaxConnections: 8, Registerer: registry})
	var clients []*client
	for host := 1; host <= 4; host++ {
		from := fmt.Sprintf("127.0.0.%d", host)
		for range 2 {
			c := connect(t, from, to)
			if clients = append(clients, c); !c.served() {
				t.Errorf("%s is refused", from)
			}
		}
		if host < 4 && connect(t, from, to).served() {
			t.Errorf("%s has more than its share", from)
		}
	}
	if connect(t, "127.0.0.5", to).served() {
		t.Error("there are more connections than may be")
	}
	if open, of, all := counted(t, registry, "waybill_connections", ""), counted(t, registry, "waybill_connections_refused_total", "address"),
		counted(t, registry, "waybill_connections_refused_total", "all"); open != 8 || of != 3 || all != 1 {
		t.Errorf("open %v, refused by share %v, by number %v", open, of, all)
	}
	for _, c := range clients {
		if !c.served() {
			t.Error("a connection that there was is gone")
		}
	}
	_ = clients[0].conn.Close()
	eventually(t, func() bool { return connect(t, "127.0.0.1", to).served() })
}

// A proxy stands for many clients: a share is not for it, the number of all is.
func TestTrustedProxiesHaveNoShare(t *testing.T) {
	t.Parallel()
	to := serve(t, boot.ServerOptions{Handler: fine, MaxConnections: 8, TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.2/32")}})
	for n := range 8 {
		if !connect(t, "127.0.0.2", to).served() {
			t.Errorf("connection %d of a trusted proxy is refused", n)
		}
	}
	if connect(t, "127.0.0.2", to).served() || connect(t, "127.0.0.3", to).served() {
		t.Error("there are more connections than may be")
	}
}

// The connection of a body in chunks ends with its answer, also when the request tells a
// length as well: what comes behind it is nobody's request.
func TestConnectionAfterChunks(t *testing.T) {
	t.Parallel()
	to := serve(t, boot.ServerOptions{Handler: fine})
	for name, row := range map[string]struct {
		header string
		closed bool
	}{
		"length":           {"Content-Length: 5\r\n\r\n0\r\n\r\n", false},
		"both":             {"Content-Length: 50\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", true},
		"both, other turn": {"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n", true},
		"chunks":           {"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", true},
	} {
		c := connect(t, "127.0.0.1", to)
		_, _ = io.WriteString(c.conn, "POST / HTTP/1.1\r\nHost: x\r\n"+row.header+"GET /second HTTP/1.1\r\nHost: x\r\n\r\n")
		response, err := http.ReadResponse(c.answer, nil)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		body, err := io.ReadAll(response.Body)
		if response.StatusCode != http.StatusOK || string(body) != "fine" || response.Close != row.closed {
			t.Errorf("%s: %d %q, %v, closed %t, want %t", name, response.StatusCode, body, err, response.Close, row.closed)
		}
		if _, err := http.ReadResponse(c.answer, nil); (err != nil) != row.closed {
			t.Errorf("%s: what comes behind is answered: %t", name, err == nil)
		}
	}
}

func eventually(t *testing.T, check func() bool) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !check() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("it has not come about")
		}
	}
}
