package local_test

import (
	"bytes"
	"context"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"waybill.dev/services/gateway/gatewaytest"
	"waybill.dev/services/gateway/internal/local"
	"waybill.dev/shared/body"
)

// passing is a route to a back end, with policies that need no body.
func passing(t *testing.T, back http.HandlerFunc, more files) *rig {
	t.Helper()
	server := httptest.NewServer(back)
	t.Cleanup(server.Close)
	forward := operation{method: "GET", path: "/forward", id: "forward", handler: runtimeHandler("urlForwardHandler", m{"baseUrl": server.URL})}
	f := files{
		"policies.json": policies(nil,
			[4]any{"mark", "set-headers-outbound", "SetHeadersOutboundPolicy", setHeader("X-Marked", "yes")},
			[4]any{"accepted", "set-status-outbound", "SetStatusOutboundPolicy", m{"status": 202}},
		),
		"a.oas.json": document(forward.with("policies", m{"outbound": []string{"mark", "accepted"}}).with("timeoutSeconds", 2)),
	}
	maps.Copy(f, more)
	return newRig(t, f, nil)
}

// The parts of an answer reach the client as the back end gives them, with what policies
// have made of its header.
func TestAnswersPassAsTheyCome(t *testing.T) {
	t.Parallel()
	next := make(chan struct{})
	r := passing(t, func(w http.ResponseWriter, _ *http.Request) {
		for range 3 {
			_, _ = io.WriteString(w, "part ")
			_ = http.NewResponseController(w).Flush()
			<-next
		}
	}, nil)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.url+"/forward", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := r.client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusAccepted || response.Header.Get("X-Marked") != "yes" {
		t.Errorf("%d %v", response.StatusCode, response.Header)
	}
	// Each part is read before the back end may go on: nothing waits for the whole.
	for range 3 {
		part := make([]byte, len("part "))
		if _, err := io.ReadFull(response.Body, part); err != nil || string(part) != "part " {
			t.Fatalf("%q %v", part, err)
		}
		next <- struct{}{}
	}
	if rest, err := io.ReadAll(response.Body); err != nil || len(rest) > 0 {
		t.Errorf("after the last part: %q %v", rest, err)
	}
}

// An answer that breaks off, or of which nothing comes for too long, is cut, so that nobody
// takes it for whole.
func TestAnswersThatBreakOff(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		back http.HandlerFunc
		log  string
	}{
		"broken off": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(make([]byte, 100_000))
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}, "an answer broke off"},
		"shorter than it says": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "200000")
			_, _ = w.Write(make([]byte, 100_000))
		}, "an answer broke off"},
		"too slow": {func(w http.ResponseWriter, r *http.Request) {
			_, _ = w.Write(make([]byte, 100_000))
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}, "did not answer in time"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := passing(t, row.back, nil)
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.url+"/forward", http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			response, err := r.client.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			_, err = io.Copy(io.Discard, response.Body)
			if response.StatusCode != http.StatusAccepted || err == nil {
				t.Errorf("%d, and reading it ended with %v", response.StatusCode, err)
			}
			gatewaytest.Within(t, slow, "it is logged", func() bool { return strings.Contains(r.logs.String(), row.log) })
		})
	}
}

// slowly takes an answer in small parts, with a pause before each.
type slowly struct {
	*httptest.ResponseRecorder

	pause func()
}

func (s *slowly) Write(p []byte) (int, error) {
	s.pause()
	return s.ResponseRecorder.Write(p)
}

// A client that takes its time does not use up the time of the back end.
func TestSlowReadersOfAnswers(t *testing.T) {
	t.Parallel()
	r := passing(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 300_000)) }, nil)
	begun := time.Now()
	w := &slowly{httptest.NewRecorder(), func() {
		if time.Since(begun) < 3*time.Second { // longer than the route may take
			<-time.After(time.Second)
		}
	}}
	r.gateway.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/forward", http.NoBody))
	if w.Code != http.StatusAccepted || w.Body.Len() != 300_000 {
		t.Errorf("%d with %d bytes", w.Code, w.Body.Len())
	}
}

// When the client goes, the back end is not asked any longer.
func TestClientsThatGo(t *testing.T) {
	t.Parallel()
	gone := make(chan struct{})
	r := passing(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "begun")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		close(gone)
	}, nil)
	ctx, leave := context.WithCancel(t.Context())
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url+"/forward", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := r.client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if _, err := io.ReadFull(response.Body, make([]byte, 5)); err != nil {
		t.Fatal(err)
	}
	leave()
	select {
	case <-gone:
	case <-time.After(20 * time.Second):
		t.Error("the back end still answers")
	}
	if logs := r.logs.String(); strings.Contains(logs, "broke off") {
		t.Errorf("the client's leave is logged: %s", logs)
	}
}

// What is passed on takes its part of the memory of bodies; without it the answer is 503.
func TestMemoryOfPassedAnswers(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 100_000)) }))
	t.Cleanup(server.Close)
	dir := t.TempDir()
	(&rig{t: t, dir: dir}).write(files{"a.oas.json": document(operation{
		method: "GET", path: "/forward", id: "forward", handler: runtimeHandler("urlForwardHandler", m{"baseUrl": server.URL}),
	})})
	for size, want := range map[int64]int{16 << 10: 503, 64 << 10: 200} {
		o := options(dir, nil, io.Discard)
		o.Memory = body.NewMemory(size, prometheus.NewRegistry())
		g, err := local.New(o)
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			w := httptest.NewRecorder()
			g.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/forward", http.NoBody))
			if w.Code != want || want == 503 && !bytes.Contains(w.Body.Bytes(), []byte("UNAVAILABLE")) {
				t.Errorf("with %d bytes: %d %.100s", size, w.Code, w.Body)
			}
		}
		closed(t, g)
	}
}
