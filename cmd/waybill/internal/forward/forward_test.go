package forward_test

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"waybill.dev/cmd/waybill/internal/forward"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// raw accepts one request on a plain socket, so that not even the case of a header's name
// is changed, and answers with the text.
func raw(t *testing.T, answer string) (address string, request <-chan string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan string, 1)
	go func() {
		defer listener.Close()
		conn, err := listener.Accept()
		if err != nil {
			got <- err.Error()
			return
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
		var text []byte
		buffer := make([]byte, 4096)
		for !strings.HasSuffix(string(text), "END\"}") {
			n, err := conn.Read(buffer)
			if err != nil {
				break
			}
			text = append(text, buffer[:n]...)
		}
		_, _ = io.WriteString(conn, answer)
		got <- string(text)
	}()
	return listener.Addr().String(), got
}

func serve(t *testing.T, target string) (*httptest.Server, <-chan forward.Passed) {
	t.Helper()
	to, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	passed := make(chan forward.Passed, 10)
	f := forward.New(to, func(p forward.Passed) { passed <- p })
	server := httptest.NewServer(f)
	t.Cleanup(func() {
		server.Close()
		f.Close()
	})
	return server, passed
}

// send sends a callback as Waybill writes it and returns the answer's status and body.
func send(t *testing.T, server *httptest.Server, body string) (*http.Response, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header = http.Header{
		"Content-Type": {"application/json"}, "User-Agent": {"Waybill/test"}, "webhook-id": {"evt_1"},
		"webhook-timestamp": {"1768469400"}, "webhook-signature": {"v1,abc= v1,def="},
		"Waybill-Attempt": {"3"}, "traceparent": {"00-1-2-01"}, "X-Custom": {"a", "b"},
	}
	transport := &http.Transport{DisableCompression: true}
	defer transport.CloseIdleConnections()
	response, err := transport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response, string(text)
}

func TestBytesAndHeadersGoOnUnchanged(t *testing.T) {
	address, got := raw(t, "HTTP/1.1 429 Slow\r\nRetry-After: 7\r\nContent-Length: 4\r\nConnection: close\r\n\r\nlate")
	server, passed := serve(t, "http://"+address+"/hooks?x=1")
	body := "{\"type\":\"shipment.created\",\r\n \"data\":{\"n\": 0.1000, \"s\":\"naïve ✓\"},\"z\":\"END\"}"
	response, text := send(t, server, body)
	if response.StatusCode != http.StatusTooManyRequests || response.Header.Get("Retry-After") != "7" || text != "late" {
		t.Errorf("the answer that came back: %d, %v, %q", response.StatusCode, response.Header, text)
	}
	head, sent, _ := strings.Cut(<-got, "\r\n\r\n")
	if sent != body {
		t.Errorf("body:\n%q\nwant\n%q", sent, body)
	}
	lines := strings.Split(head, "\r\n")
	want := map[string]bool{
		"POST /hooks?x=1 HTTP/1.1": true, "Host: " + address: true, "Content-Length: " + strconv.Itoa(len(body)): true,
		"Content-Type: application/json": true, "User-Agent: Waybill/test": true, "webhook-id: evt_1": true,
		"webhook-timestamp: 1768469400": true, "webhook-signature: v1,abc= v1,def=": true, "Waybill-Attempt: 3": true,
		"traceparent: 00-1-2-01": true, "X-Custom: a": true, "X-Custom: b": true,
	}
	seen := make(map[string]bool)
	for _, line := range lines {
		seen[line] = true
	}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Errorf("request line and headers (-want +got):\n%s", diff)
	}
	p := <-passed
	if p.EventID != "evt_1" || p.Type != "shipment.created" || p.Attempt != 3 || p.Status != http.StatusTooManyRequests || p.Err != nil {
		t.Errorf("reported: %+v", p)
	}
}

func TestProgramThatDoesNotAnswerIsAFailure(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	server, passed := serve(t, "http://"+address)
	response, _ := send(t, server, "{}")
	if response.StatusCode != http.StatusBadGateway {
		t.Errorf("answered %d", response.StatusCode)
	}
	if p := <-passed; p.Err == nil || p.Status != 0 {
		t.Errorf("reported: %+v", p)
	}
}
