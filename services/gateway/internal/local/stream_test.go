package local_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"waybill.dev/services/gateway/gatewaytest"
	"waybill.dev/services/gateway/internal/route"
)

// limited is a writer that notes until when it may be written to.
type limited struct {
	*httptest.ResponseRecorder

	limits []time.Time
}

func (l *limited) SetWriteDeadline(t time.Time) error {
	l.limits = append(l.limits, t)
	return nil
}

// A stream outlasts the server's limits, but each part of it must be read in time.
func TestStream(t *testing.T) {
	t.Parallel()
	wait := 600 * time.Millisecond
	r := newRig(t, files{"a.oas.json": document(calls("GET", "/stream", "stream"))}, module{
		"stream": gatewaytest.Func(func(context.Context, *route.Request) (*route.Response, error) {
			return &route.Response{Header: http.Header{"Content-Type": {"text/event-stream"}}, Stream: func(ctx context.Context, w http.ResponseWriter) {
				_, _ = io.WriteString(w, "one ")
				_ = http.NewResponseController(w).Flush()
				select {
				case <-ctx.Done():
				case <-time.After(wait):
					_, _ = io.WriteString(w, "two")
				}
			}}, nil
		}),
	})
	server := httptest.NewUnstartedServer(r.gateway)
	server.Config.ReadTimeout, server.Config.WriteTimeout = wait/3, wait/3
	server.Start()
	defer server.Close()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/stream", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	got := r.send(request)
	got.want(http.StatusOK, "one two")
	if media := got.header.Get("Content-Type"); media != "text/event-stream" {
		t.Errorf("Content-Type is %q", media)
	}
	writer := &limited{ResponseRecorder: httptest.NewRecorder()}
	begun := time.Now()
	r.gateway.ServeHTTP(writer, httptest.NewRequest(http.MethodGet, "/stream", http.NoBody))
	if len(writer.limits) != 3 { // of two parts, and of pushing the first out
		t.Fatalf("the limits are %v", writer.limits)
	}
	for _, limit := range writer.limits {
		if limit.Before(begun) || limit.After(time.Now().Add(time.Minute)) {
			t.Errorf("a part may be left unread until %v", limit)
		}
	}
}
