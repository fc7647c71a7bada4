package live_test

import (
	"bufio"
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"waybill.dev/services/api/internal/kernel/live"
	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/shared/apikey"
	"waybill.dev/shared/bus"
	"waybill.dev/shared/bus/bustest"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/news"
)

// anybody is who every caller is.
type anybody struct{}

func (anybody) Authenticate(context.Context, string) (apikey.Principal, error) {
	return apikey.Principal{Account: "default", ID: "test", Scopes: []domain.Scope{domain.ScopeEventsRead}}, nil
}

// serve serves streams on a real bus. It returns the server, what publishes news, and what is
// told of connections that the server has closed.
func serve(t *testing.T) (server *httptest.Server, publisher *news.Publisher, closed <-chan struct{}) {
	t.Helper()
	b, err := bus.Connect(bus.Options{URL: bustest.Start(t).URL(), Name: "test", Logger: slog.New(slog.DiscardHandler), MACKeys: [][]byte{make([]byte, 32)}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	if err := b.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	streams, publisher := live.NewStreams(b, slog.New(slog.DiscardHandler)), news.NewPublisher(b)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 2)
	go func() { ended <- streams.Run(ctx) }()
	go func() { ended <- publisher.Run(ctx) }()
	server = httptest.NewUnstartedServer(web.New(web.Options{
		Routes: live.Routes(streams), Authenticator: anybody{}, Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry(),
	}))
	// Those of a real server are longer, and end other answers.
	server.Config.ReadTimeout, server.Config.WriteTimeout = 300*time.Millisecond, 300*time.Millisecond
	gone := make(chan struct{}, 1)
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateClosed {
			gone <- struct{}{}
		}
	}
	server.Start()
	t.Cleanup(func() {
		cancel()
		for range 2 {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
		server.Close()
	})
	return server, publisher, gone
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !is(); {
		if time.Now().After(deadline) {
			t.Fatalf("not in time: %s", what)
		}
		<-time.After(5 * time.Millisecond)
	}
}

// A stream goes on beyond the time that the server has for other answers.
func TestNoDeadline(t *testing.T) {
	t.Parallel()
	server, publisher, _ := serve(t)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+live.Path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("X-Api-Key", "any")
	response, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	eventually(t, "the account is watched", publisher.Watched)
	<-time.After(time.Second)
	publisher.Note("default", news.Job, `late"`)
	for lines := bufio.NewScanner(response.Body); ; {
		if !lines.Scan() {
			t.Fatalf("the stream has ended: %v", lines.Err())
		}
		if lines.Text() == `data: {"kind":"job","id":"late\""}` {
			return
		}
	}
}

// Who does not read holds up nobody, and is dropped in the end.
func TestSlowReader(t *testing.T) {
	t.Parallel()
	server, publisher, dropped := serve(t)
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(server.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if err := conn.(*net.TCPConn).SetReadBuffer(4096); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write([]byte("GET /v1/live HTTP/1.1\r\nHost: x\r\nX-Api-Key: any\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the account is watched", publisher.Watched)
	// Ids far longer than there are fill what lies between the two sooner.
	stop := make(chan struct{})
	flooding := make(chan struct{})
	go func() {
		defer close(flooding)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			case <-time.After(10 * time.Millisecond):
				publisher.Note("default", news.Event, strings.Repeat("x", 25_000)+time.Now().String())
			}
		}
	}()
	defer func() {
		close(stop)
		<-flooding
	}()
	select {
	case <-dropped:
	case <-time.After(time.Minute):
		t.Fatal("a reader that does not read is still served")
	}
}
