package egress_test

import (
	"bufio"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"waybill.dev/shared/egress"
	"waybill.dev/shared/jsonscan/attack"
)

// FuzzAnswer looks for bytes of a receiver that cost more than an answer may, or that end in
// something that can't be recorded.
func FuzzAnswer(f *testing.F) {
	for _, answer := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", "HTTP/1.1 503 x\r\nRetry-After: 1\r\nRetry-After: x\r\n\r\n\x00\xff" + strings.Repeat("é", 700),
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 x\r\n\r\n",
		"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n", "HTTP/1.0 99 \r\n\r\n", "HTTP/1.1 999 x\r\nContent-Length: -1\r\n\r\n", "", "\r\n\r\n",
		"HTTP/1.1 200 OK\r\n" + strings.Repeat("A: b\r\n", 5000) + "\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n",
	} {
		f.Add([]byte(answer))
	}
	url, say := says(f)
	f.Fuzz(func(t *testing.T, answer []byte) {
		if len(answer) > 1<<20 {
			return
		}
		say(answer)
		c := dev(t).NewClient(egress.Options{})
		defer c.Close()
		var response egress.Response
		attack.Hold(t, len(answer), attack.Allowance{CPU: 4, Bytes: 4 << 20}, func() {
			response = c.Post(t.Context(), &egress.Request{URL: url, Body: []byte("{}"), Timeout: 2 * time.Second})
		})
		switch {
		case len(response.Body) > egress.MaxKept || !utf8.ValidString(response.Body) || strings.Contains(response.Body, "\x00"):
			t.Errorf("a body of %d bytes: %q", len(response.Body), response.Body)
		case response.Status == 0 && (response.Err == nil || response.Code == ""):
			t.Error("neither an answer nor a reason")
		case response.Status != 0 && (response.Status < 200 || response.Status > 599):
			t.Errorf("status %d", response.Status)
		}
	})
}

// says starts a receiver that answers every request with the bytes that say has been given last. One
// is enough for all inputs: each would keep a port for a minute after its last connection.
func says(f *testing.F) (url string, say func(answer []byte)) {
	f.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		f.Fatal(err)
	}
	var answer atomic.Pointer[[]byte]
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			if request, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
				_ = request.Body.Close()
				_, _ = conn.Write(*answer.Load())
			}
			_ = conn.Close()
		}
	}()
	f.Cleanup(func() {
		_ = listener.Close()
		<-ended
	})
	return "http://" + listener.Addr().String() + "/", func(text []byte) { answer.Store(&text) }
}
