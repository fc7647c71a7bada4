package e2e_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
)

// collector takes traces as OTLP collectors do and keeps them as they come.
type collector struct {
	url string

	mu   sync.Mutex
	kept bytes.Buffer
}

func newCollector(t *testing.T) *collector {
	t.Helper()
	c := &collector{}
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	c.url = server.URL
	return c
}

// settings has traces told to it, soon, and everything logged that can be.
func (c *collector) settings() map[string]string {
	return map[string]string{
		"WAYBILL_LOG_LEVEL":           "debug",
		"OTEL_EXPORTER_OTLP_ENDPOINT": c.url,
		"OTEL_BSP_SCHEDULE_DELAY":     "100",
	}
}

// ServeHTTP implements http.Handler.
func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body := io.Reader(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		unzipped, err := gzip.NewReader(r.Body)
		if err != nil {
			http.Error(w, "not gzip", http.StatusBadRequest)
			return
		}
		body = unzipped
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	_, _ = c.kept.ReadFrom(io.LimitReader(body, maxTraces))
}

// maxTraces bounds what is read of one batch of traces.
const maxTraces = 16 << 20

func (c *collector) all() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return bytes.Clone(c.kept.Bytes())
}
