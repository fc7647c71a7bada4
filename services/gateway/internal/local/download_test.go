package local_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"waybill.dev/services/gateway/internal/route"
)

// behind is a gateway with the route GET /forward to a back end, on a server whose own limits
// are short. The back end may be silent for two seconds at a time.
func behind(t *testing.T, back http.HandlerFunc) (r *rig, url string) {
	t.Helper()
	far := httptest.NewServer(back)
	t.Cleanup(far.Close)
	r = newRig(t, files{"a.oas.json": document(operation{
		method: "GET", path: "/forward", id: "forward", handler: runtimeHandler("urlForwardHandler", m{"baseUrl": far.URL}),
	}.with("timeoutSeconds", 2))}, nil)
	near := httptest.NewUnstartedServer(r.gateway)
	near.Config.ReadTimeout, near.Config.WriteTimeout = time.Second, time.Second
	near.Start()
	t.Cleanup(near.Close)
	return r, near.URL + "/forward"
}

func get(t *testing.T, r *rig, url string) *http.Response {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := r.client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = answer.Body.Close() })
	return answer
}

// Events of a back end reach the client one by one, for longer than a route and a server give
// an answer. The client has the head before there is any event.
func TestEventsOfBackEnds(t *testing.T) {
	t.Parallel()
	begun := make(chan struct{})
	r, url := behind(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		control := http.NewResponseController(w)
		_ = control.Flush()
		select {
		case <-begun:
		case <-time.After(1800 * time.Millisecond):
			t.Error("the client has no head as long as there is no event")
		}
		for i := range 8 {
			fmt.Fprintf(w, "data: %d\n\n", i)
			_ = control.Flush()
			<-time.After(400 * time.Millisecond)
		}
	})
	answer := get(t, r, url)
	close(begun)
	if media := answer.Header.Get("Content-Type"); answer.StatusCode != http.StatusOK || media != "text/event-stream" {
		t.Errorf("%d %s", answer.StatusCode, media)
	}
	for i := range 8 {
		event := make([]byte, len("data: 0\n\n"))
		if _, err := io.ReadFull(answer.Body, event); err != nil || string(event) != fmt.Sprintf("data: %d\n\n", i) {
			t.Fatalf("event %d: %q, %v", i, event, err)
		}
	}
	if rest, err := io.ReadAll(answer.Body); err != nil || len(rest) > 0 {
		t.Errorf("after the last event: %q %v", rest, err)
	}
}

// A download is as long as the back end likes. What the client has not taken stays there: the
// gateway holds no more than a buffer of it, besides what connections do.
func TestDownloads(t *testing.T) {
	t.Parallel()
	const parts, part = 64, 1 << 20
	for name, length := range map[string]string{"of known length": strconv.Itoa(parts * part), "in chunks": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var sent atomic.Int64
			r, url := behind(t, func(w http.ResponseWriter, _ *http.Request) {
				if length != "" {
					w.Header().Set("Content-Length", length)
				}
				text := make([]byte, part)
				for range parts {
					n, err := w.Write(text)
					sent.Add(int64(n))
					if err != nil {
						return
					}
				}
			})
			answer := get(t, r, url)
			if _, err := io.ReadFull(answer.Body, make([]byte, 2*route.MaxResponse)); err != nil {
				t.Fatal(err)
			}
			// The client stops for longer than the back end may be silent.
			for before := int64(-1); before != sent.Load(); {
				before = sent.Load()
				<-time.After(1500 * time.Millisecond)
			}
			if ahead := sent.Load(); ahead > parts*part/2 {
				t.Errorf("the back end has got rid of %d bytes that nobody has taken", ahead)
			}
			rest, err := io.Copy(io.Discard, answer.Body)
			if got := rest + 2*route.MaxResponse; err != nil || got != parts*part {
				t.Errorf("%d bytes, then %v", got, err)
			}
		})
	}
}
