package gatewaytest

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"maps"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"waybill.dev/services/gateway/internal/local"
	"waybill.dev/services/gateway/internal/route"
	"waybill.dev/shared/apikey"
	"waybill.dev/shared/egress"
)

// Files are the contents of a folder by name.
type Files map[string]string

// Write writes the files into a folder, each at once, as an editor or a deployment should.
func (f Files) Write(t testing.TB, dir string) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(f)) {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			t.Fatal(err)
		}
		hidden := filepath.Join(dir, ".new")
		if err := os.WriteFile(hidden, []byte(f[name]), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(hidden, path); err != nil {
			t.Fatal(err)
		}
	}
}

// Keys are the API keys that a gateway knows, with their principals.
type Keys map[string]apikey.Principal

// Authenticate implements gateway.Authenticator.
func (k Keys) Authenticate(_ context.Context, key string) (apikey.Principal, error) {
	who, ok := k[key]
	if !ok {
		return apikey.Principal{}, apikey.ErrUnauthenticated
	}
	return who, nil
}

// Func is a handler that a test registers.
type Func func(ctx context.Context, r *route.Request) (*route.Response, error)

// Handle implements route.Handler.
func (f Func) Handle(ctx context.Context, r *route.Request) (*route.Response, error) {
	return f(ctx, r)
}

// Logs collects log lines.
type Logs struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (l *Logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// String returns what has been logged so far.
func (l *Logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Options returns the options of a gateway over a folder. It knows no key, applies the rules of
// production, and logs as JSON.
func Options(dir string, logs io.Writer) local.Options {
	return local.Options{
		Dir: dir, Egress: &egress.Policy{}, Authenticator: Keys{},
		Logger: slog.New(slog.NewJSONHandler(logs, nil)), Registerer: prometheus.NewRegistry(),
	}
}

// Serve makes a gateway and serves it on loopback, with the time limits of the real server.
// Both end with the test.
func Serve(t testing.TB, options local.Options) (routes *local.Routes, url string) {
	t.Helper()
	routes, err := local.New(options)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(routes)
	server.Config.ReadTimeout, server.Config.WriteTimeout = 15*time.Second, 40*time.Second
	server.Start()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- routes.Run(ctx) }()
	t.Cleanup(func() {
		server.Close()
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return routes, server.URL
}

// Within waits until check returns true, and fails the test when that takes longer than limit.
func Within(t testing.TB, limit time.Duration, what string, check func() bool) {
	t.Helper()
	deadline := time.After(limit)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !check() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("not within %s: %s", limit, what)
		}
	}
}
