package web_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"waybill.dev/services/api/internal/families/events"
	"waybill.dev/shared/body"
	"waybill.dev/shared/body/bodytest"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/store/pipeline"
)

// timed accepts events, and says how long it had for it.
type timed struct{ had time.Duration }

func (a *timed) Submit(ctx context.Context, s pipeline.Submission, _ string) (pipeline.Receipt, error) {
	deadline, _ := ctx.Deadline()
	a.had = time.Until(deadline)
	return instant{}.Submit(ctx, s, "")
}

// eventsAt is where events are published.
const eventsAt = "/v1/events"

func publishing(accepter events.Accepter, memory *body.Memory) http.Handler {
	return newHandler(&rig{
		accepter: accepter, who: caller{scopes: []domain.Scope{domain.ScopeAdmin}}, store: brokenStore{err: domain.ErrUnavailable}, memory: memory,
	})
}

// eventsOf returns a batch of about so many bytes.
func eventsOf(size int) string {
	var b strings.Builder
	for n := 0; b.Len() < size-100; n++ {
		fmt.Fprintf(&b, `,{"id":"e%d","type":"shipment.created","data":{"shipmentId":"s1","note":"%s"}}`, n, strings.Repeat("x", min(1000, size-b.Len())))
	}
	return "[" + b.String()[1:] + "]"
}

// A body is waited for as long as it keeps to 4 KB a second, for a minute; the request's
// own time begins with its end.
func TestSlowUploads(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		size, perSecond, status int
		atLeast, atMost         time.Duration
	}{
		"296 KB at 100 KB/s":     {296_000, 100_000, 202, 2 * time.Second, 4 * time.Second},
		"40 KB at 4 KB/s":        {40_000, 4_096, 202, 9 * time.Second, 11 * time.Second},
		"280 KB at 5 KB/s":       {280_000, 5_000, 202, 55 * time.Second, 58 * time.Second},
		"400 KB at 5 KB/s":       {400_000, 5_000, 408, 60 * time.Second, 61 * time.Second},
		"50 KB at 1 KB/s":        {50_000, 1_000, 408, 9 * time.Second, 11 * time.Second},
		"a byte a second at all": {50_000, 1, 408, 9 * time.Second, 11 * time.Second},
	} {
		for _, chunked := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", in chunks: ", chunked), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					accepter := &timed{}
					s := bodytest.StartServer(t, publishing(accepter, nil))()
					text, started := eventsOf(row.size), time.Now()
					go func() {
						if chunked {
							s.Head(eventsAt, -1)
							fmt.Fprintf(s.Conn, "%x\r\n", len(text))
							s.Send(text, row.perSecond)
							_, _ = io.WriteString(s.Conn, "\r\n0\r\n\r\n")
							return
						}
						s.Head(eventsAt, len(text))
						s.Send(text, row.perSecond)
					}()
					response, answer := s.Read()
					if took := time.Since(started); response.StatusCode != row.status || took < row.atLeast || took > row.atMost {
						t.Errorf("status %d after %s, want %d after %s to %s: %s", response.StatusCode, took, row.status, row.atLeast, row.atMost, answer)
					}
					if row.status == http.StatusAccepted && (accepter.had != 1800*time.Millisecond || response.Close) {
						t.Errorf("the request had %s after its body; the connection is closed: %t", accepter.had, response.Close)
					}
					if row.status == http.StatusRequestTimeout && (!response.Close || !strings.Contains(answer, `"REQUEST_TIMEOUT"`)) {
						t.Errorf("the connection is closed: %t, answer %s", response.Close, answer)
					}
				})
			})
		}
	}
}

// The deadlines of a body end with it: neither the work on the request nor the next request
// on the connection feels them.
func TestConnectionAfterASlowUpload(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := bodytest.StartServer(t, publishing(&timed{}, nil))()
		for range 3 {
			text := eventsOf(100_000)
			s.Head(eventsAt, len(text))
			s.Send(text, 5_000) // 20 s
			if response, answer := s.Read(); response.StatusCode != http.StatusAccepted || response.Close {
				t.Fatalf("status %d, closed %t: %s", response.StatusCode, response.Close, answer)
			}
			<-time.After(50 * time.Second) // below the idle time
		}
	})
}

// What a body takes in memory is bounded by what has come of it, for all requests together,
// and is given back when its request ends.
func TestBodiesShareTheirMemory(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewRegistry()
		connect := bodytest.StartServer(t, publishing(instant{}, body.NewMemory(1<<20, registry)))
		held := func() float64 { return gauge(t, registry, "waybill_body_memory_bytes") }
		text := eventsOf(900_000)
		first := connect()
		first.Head(eventsAt, len(text))
		synctest.Wait()
		if took := held(); took > 70_000 {
			t.Errorf("a body of which nothing has come has %v bytes", took)
		}
		go first.Send(text[:600_000], 1_000_000)
		<-time.After(time.Second)
		if took := held(); took < 600_000 || took > 1_200_000 {
			t.Errorf("a body of which 600,000 bytes have come has %v", took)
		}
		second := connect()
		second.Head(eventsAt, len(text))
		go second.Send(text, 10_000_000)
		response, answer := second.Read()
		if response.StatusCode != http.StatusServiceUnavailable || response.Header.Get("Retry-After") == "" || !response.Close {
			t.Errorf("a body for which there is no memory: %d, %v, closed %t: %s", response.StatusCode, response.Header, response.Close, answer)
		}
		small := connect()
		small.Head(eventsAt, 100)
		small.Send("["+strings.Repeat(" ", 99), 1000)
		if response, _ := small.Read(); response.StatusCode != http.StatusBadRequest {
			t.Errorf("a small body beside it: %d", response.StatusCode)
		}
		first.Send(text[600_000:], 10_000_000)
		if response, answer := first.Read(); response.StatusCode != http.StatusAccepted {
			t.Errorf("the first: %d %s", response.StatusCode, answer)
		}
		synctest.Wait()
		if left := held(); left != 0 {
			t.Errorf("%v bytes are held after the requests", left)
		}
		if refused := gauge(t, registry, "waybill_body_memory_refused_total"); refused != 1 {
			t.Errorf("%v refusals are counted, want 1", refused)
		}
	})
}

// gauge returns the value of a metric without labels.
func gauge(t *testing.T, registry *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == name {
			return family.GetMetric()[0].GetGauge().GetValue() + family.GetMetric()[0].GetCounter().GetValue()
		}
	}
	t.Fatal("no metric", name)
	return 0
}

// Who calls, what they may do and how often is asked before anything of the body is read.
func TestNobodyReadsTheBodyOfARefusedRequest(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		who    caller
		limit  float64
		status int
	}{
		"no right": {caller{}, 0, http.StatusForbidden},
		"too many": {caller{scopes: []domain.Scope{domain.ScopeAdmin}}, 1, http.StatusTooManyRequests},
	} {
		handler := newHandler(&rig{store: brokenStore{err: domain.ErrUnavailable}, who: row.who, limit: row.limit})
		if row.limit > 0 {
			call(handler, http.MethodPost, eventsAt) // it has no body, but counts
		}
		content := &countedReader{reader: bytes.NewReader(make([]byte, 1000))}
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/events", content)
		if err != nil {
			t.Fatal(err)
		}
		request.ContentLength = 1000
		request.Header.Set("X-Api-Key", "some-key")
		if got := serve(handler, request).Code; got != row.status || content.read != 0 {
			t.Errorf("%s: %d, and %d bytes were read", name, got, content.read)
		}
	}
}

type countedReader struct {
	reader io.Reader
	read   int
}

func (c *countedReader) Read(p []byte) (int, error) {
	n, err := c.reader.Read(p)
	c.read += n
	return n, err
}
