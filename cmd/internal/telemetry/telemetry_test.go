package telemetry_test

import (
	"bytes"
	"encoding/json"
	"io"
	"log" //nolint:depguard // it is what libraries write to
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"waybill.dev/cmd/internal/telemetry"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/egress/hostile"
)

func TestLoggerWritesJSONUnlessForAPerson(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	logger := telemetry.NewLogger(&out, slog.LevelInfo, "auto") // a buffer is no terminal
	logger.Debug("not shown")
	logger.Info("started", "key", domain.Secret("hush"), "text", "a\nb\x1b[31m", "after", 1500*time.Millisecond)
	var line map[string]any
	if err := json.Unmarshal(out.Bytes(), &line); err != nil {
		t.Fatalf("%v: %s", err, &out)
	}
	if line["msg"] != "started" || line["key"] != "[redacted]" || line["text"] != "a\nb\x1b[31m" || line["after"] != "1.5s" || strings.Count(out.String(), "\n") != 1 {
		t.Errorf("line: %s", &out)
	}
	out.Reset()
	telemetry.NewLogger(&out, slog.LevelInfo, "text").Info("started", "key", domain.Secret("hush"), "text", "a\nb\x1b[31m")
	if text := out.String(); !strings.Contains(text, `level=INFO msg=started key=[redacted] text="a\nb\x1b[31m"`) || strings.Contains(text, "\x1b") {
		t.Errorf("line: %q", text)
	}
}

func TestWhatReceiversSayStaysOutOfTheLog(t *testing.T) {
	var out bytes.Buffer
	before := slog.Default()
	defer slog.SetDefault(before)
	defer log.SetOutput(log.Writer())
	defer log.SetFlags(log.Flags())
	slog.SetDefault(telemetry.Stray(telemetry.NewLogger(&out, slog.LevelDebug, "json")))
	log.Printf("Unsolicited response received on idle HTTP channel starting with %q; err=%v", "hush", io.EOF)
	if strings.Contains(out.String(), "hush") || !strings.Contains(out.String(), "a response without a request") {
		t.Errorf("log: %s", &out)
	}
	out.Reset()
	log.Print("something else\nof two lines " + strings.Repeat("x", 1000))
	if text := out.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, `"text":"something else\nof two lines xxx`) || len(text) > 600 {
		t.Errorf("log: %s", text)
	}
}

// The line is the one that net/http writes: a receiver that sends more than its answer.
func TestUnsolicitedBytesStayOutOfTheLog(t *testing.T) {
	var raw, filtered lockedBuffer
	before, writer, flags := slog.Default(), log.Writer(), log.Flags()
	defer func() {
		slog.SetDefault(before)
		log.SetOutput(writer)
		log.SetFlags(flags)
	}()
	slog.SetDefault(telemetry.Stray(telemetry.NewLogger(&filtered, slog.LevelDebug, "json")))
	log.SetOutput(io.MultiWriter(&raw, log.Writer()))
	sinks := hostile.Sinks()
	at := slices.IndexFunc(sinks, func(s hostile.Sink) bool { return s.Name == "bytes beyond its answer" })
	if at < 0 {
		t.Fatal("there is no such receiver")
	}
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, sinks[at].Start(t), http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := transport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, answer.Body)
	_ = answer.Body.Close()
	deadline := time.After(10 * time.Second)
	for !strings.Contains(raw.String(), "hunter2") || !strings.Contains(filtered.String(), "a response without a request") {
		select {
		case <-deadline:
			t.Fatalf("net/http wrote %q, and the log has %q", raw.String(), filtered.String())
		case <-time.After(time.Millisecond):
		}
	}
	if strings.Contains(filtered.String(), "hunter2") {
		t.Errorf("log: %s", filtered.String())
	}
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func TestOpsHandler(t *testing.T) {
	t.Parallel()
	handler := telemetry.OpsHandler(telemetry.NewRegistry("v1.2.3"))
	for path, want := range map[string]string{
		"/metrics": `waybill_build_info{goversion="go1.`, "/debug/pprof/": "goroutine", "/debug/pprof/cmdline": "test",
	} {
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost"+path, http.NoBody))
		if answer.Code != http.StatusOK || !strings.Contains(answer.Body.String(), want) {
			t.Errorf("%s: %d without %s", path, answer.Code, want)
		}
	}
}

func TestTracesAreOffUnlessTheyHaveSomewhereToGo(t *testing.T) {
	for _, name := range []string{"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_SDK_DISABLED", "OTEL_TRACES_EXPORTER"} {
		t.Setenv(name, "")
	}
	got := make(chan string, 10)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got <- r.URL.Path }))
	defer server.Close()
	span := func() {
		t.Helper()
		provider, flush, err := telemetry.NewTracer(t.Context(), "test", "v1", slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		_, s := provider.Tracer("test").Start(t.Context(), "work")
		s.End()
		if err := flush(t.Context()); err != nil {
			t.Error(err)
		}
	}
	span()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.URL)
	t.Setenv("OTEL_SDK_DISABLED", "true")
	span()
	if len(got) != 0 {
		t.Error("traces were sent although they are off")
	}
	t.Setenv("OTEL_SDK_DISABLED", "")
	span()
	if len(got) != 1 || <-got != "/v1/traces" {
		t.Error("no traces were sent")
	}
}

// A page whose name was made to lead to this machine gets nothing; who watches it does, by
// an address, the name of a container, or a name that the operator has told.
func TestOpsAnswersToItsOwnNames(t *testing.T) {
	t.Parallel()
	handler := telemetry.OpsHandler(telemetry.NewRegistry("test"), "ops.example.com", "")
	for host, want := range map[string]int{
		"127.0.0.1:9090": 200, "[::1]:9090": 200, "10.1.2.3": 200, "localhost:9090": 200, "LOCALHOST": 200, "api:9090": 200, "waybill-api": 200,
		"ops.example.com:9090": 200, "Ops.Example.com": 200, "x.localhost:9090": 200,
		"evil.example:9090": 421, "evil.ops.example.com": 421, "127.0.0.1.evil.example": 421, "localhost.evil.example": 421, "localhost.": 421, "": 421,
	} {
		for _, path := range []string{"/metrics", "/debug/pprof/", "/debug/pprof/cmdline"} {
			r := httptest.NewRequest(http.MethodGet, path, http.NoBody)
			r.Host = host
			recorder := httptest.NewRecorder()
			handler.ServeHTTP(recorder, r)
			if recorder.Code != want {
				t.Errorf("%s as %q: %d, want %d", path, host, recorder.Code, want)
			}
		}
	}
}

// Arguments may be keys.
func TestCommandLineHasNoArguments(t *testing.T) {
	t.Parallel()
	recorder := httptest.NewRecorder()
	telemetry.OpsHandler(telemetry.NewRegistry("test")).ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, "http://localhost/debug/pprof/cmdline", http.NoBody))
	if got := recorder.Body.String(); recorder.Code != http.StatusOK || got == "" || strings.ContainsAny(got, "\x00= ") {
		t.Errorf("%d %q", recorder.Code, got)
	}
}
