package forward_test

import (
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"waybill.dev/cmd/waybill/internal/forward"
	"waybill.dev/shared/signature"
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

func serve(t *testing.T, target string) (*httptest.Server, <-chan forward.Result) {
	t.Helper()
	to, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	passed := make(chan forward.Result, 10)
	f := forward.New(to, key(t), func(p forward.Result) { passed <- p })
	server := httptest.NewServer(f)
	t.Cleanup(func() {
		server.Close()
		f.Close()
	})
	return server, passed
}

const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

func key(t *testing.T) signature.Key {
	t.Helper()
	key, err := signature.ParseSecret(secret)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// signed returns the headers of a callback that was signed at that time.
func signed(t *testing.T, at time.Time, body string) http.Header {
	t.Helper()
	return http.Header{
		"webhook-id": {"evt_1"}, "webhook-timestamp": {strconv.FormatInt(at.Unix(), 10)},
		"webhook-signature": {"v1,AAAA " + signature.NewSigner(key(t)).Sign("evt_1", at, []byte(body))},
	}
}

// send sends a callback as Waybill writes it and returns the answer's status and body.
func send(t *testing.T, server *httptest.Server, header http.Header, body string) (*http.Response, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header = http.Header{
		"Content-Type": {"application/json"}, "User-Agent": {"Waybill/test"},
		"Waybill-Attempt": {"3"}, "traceparent": {"00-1-2-01"}, "X-Custom": {"a", "b"},
	}
	maps.Copy(request.Header, header)
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
	header := signed(t, time.Now(), body)
	response, text := send(t, server, header, body)
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
		"Waybill-Attempt: 3":     true,
		"traceparent: 00-1-2-01": true, "X-Custom: a": true, "X-Custom: b": true,
	}
	for _, name := range []string{"webhook-timestamp", "webhook-signature"} {
		want[name+": "+header[name][0]] = true
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
	response, _ := send(t, server, signed(t, time.Now(), "{}"), "{}")
	if response.StatusCode != http.StatusBadGateway {
		t.Errorf("answered %d", response.StatusCode)
	}
	if p := <-passed; p.Err == nil || p.Status != 0 {
		t.Errorf("reported: %+v", p)
	}
}

func TestOnlyWhatIsSignedGoesOn(t *testing.T) {
	var got atomic.Int64
	program := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { got.Add(1) }))
	t.Cleanup(program.Close)
	server, passed := serve(t, program.URL)
	now := time.Now()
	foreign, other := signed(t, now, "{}"), signed(t, now, "{}")
	foreign["webhook-signature"] = []string{"v1,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4="}
	other["webhook-id"] = []string{"evt_2"}
	for name, header := range map[string]http.Header{
		"without a signature": {}, "with a foreign signature": foreign, "with another id": other,
		"signed for another body": signed(t, now, "[]"), "from long ago": signed(t, now.Add(-time.Hour), "{}"),
	} {
		response, _ := send(t, server, header, "{}")
		if p := <-passed; response.StatusCode != http.StatusUnauthorized || p.Refused == "" || p.Status != 0 {
			t.Errorf("%s: answered %d, reported %+v", name, response.StatusCode, p)
		}
	}
	if n := got.Load(); n != 0 {
		t.Errorf("%d of them came to the program", n)
	}
	response, _ := send(t, server, signed(t, now, "{}"), "{}")
	if p := <-passed; response.StatusCode != http.StatusOK || p.Refused != "" || got.Load() != 1 {
		t.Errorf("signed: answered %d, reported %+v, %d came", response.StatusCode, p, got.Load())
	}
}

func TestWithoutAProgramCallbacksAreTold(t *testing.T) {
	passed := make(chan forward.Result, 1)
	f := forward.New(nil, key(t), func(p forward.Result) { passed <- p })
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	response, _ := send(t, server, signed(t, time.Now(), `{"type":"shipment.created"}`), `{"type":"shipment.created"}`)
	p := <-passed
	if response.StatusCode != http.StatusOK || string(p.Body) != `{"type":"shipment.created"}` || p.Header.Get("Webhook-Signature") == "" || p.Status != http.StatusOK {
		t.Errorf("answered %d, reported %+v", response.StatusCode, p)
	}
}
