package local_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"waybill.dev/services/gateway/internal/local"
	"waybill.dev/shared/body"
)

// patience is how long a test waits for what must happen.
const patience = 20 * time.Second

// long is the length of a body that is passed on, whatever is known of it.
const long = 200_000

// sending is a gateway with the route POST /forward to a back end. change, when not nil,
// changes the route.
func sending(t *testing.T, back http.HandlerFunc, change func(operation) operation) *rig {
	t.Helper()
	server := httptest.NewServer(back)
	t.Cleanup(server.Close)
	forward := operation{method: "POST", path: "/forward", id: "forward", handler: runtimeHandler("urlForwardHandler", m{"baseUrl": server.URL})}
	if change != nil {
		forward = change(forward)
	}
	return newRig(t, files{
		"policies.json": policies(nil,
			[4]any{"key", "api-key-inbound", "ApiKeyInboundPolicy", m{}},
			[4]any{"mark", "set-headers-inbound", "SetHeadersInboundPolicy", setHeader("X-Marked", "yes")},
			[4]any{"size", "request-size-limit-inbound", "RequestSizeLimitInboundPolicy", m{"maxSizeInBytes": 500_000}},
		),
		"a.oas.json": document(forward),
	}, nil)
}

// sender is a client that sends a body part by part, on a connection of its own.
type sender struct {
	t       *testing.T
	conn    net.Conn
	answer  *bufio.Reader
	chunked bool
}

// begin begins a request whose body has so many bytes; below 0: it comes in chunks.
func (r *rig) begin(t *testing.T, length int) *sender {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(r.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(2 * patience))
	s := &sender{t, conn, bufio.NewReader(conn), length < 0}
	s.head(length)
	return s
}

// head begins a request.
func (s *sender) head(length int) {
	size := fmt.Sprintf("Content-Length: %d", length)
	if length < 0 {
		size = "Transfer-Encoding: chunked"
	}
	fmt.Fprintf(s.conn, "POST /forward HTTP/1.1\r\nHost: x\r\nX-API-Key: good\r\n%s\r\n\r\n", size)
}

// send sends a part of the body; "" ends one that comes in chunks.
func (s *sender) send(part string) {
	if s.chunked {
		part = fmt.Sprintf("%x\r\n%s\r\n", len(part), part)
	}
	_, _ = io.WriteString(s.conn, part) // what was refused may be closed
}

// read reads the answer, and reports whether the connection is closed after it.
func (s *sender) read() (status int, text string, closed bool) {
	s.t.Helper()
	response, err := http.ReadResponse(s.answer, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return response.StatusCode, string(content), response.Close
}

// forms are the lengths that a long body may tell.
func forms(t *testing.T, test func(t *testing.T, length int)) {
	t.Helper()
	for name, length := range map[string]int{"of known length": long, "in chunks": -1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, length)
		})
	}
}

// got is what a back end was sent, and how that ended.
type got struct {
	bytes int64
	err   error
}

// swallow is a back end that reads a body to its end, and answers with how many bytes it has.
func swallow(ended chan<- got) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, r.Body)
		ended <- got{n, err}
		fmt.Fprint(w, n)
	}
}

func await[T any](t *testing.T, from <-chan T, what string) (value T) {
	t.Helper()
	select {
	case value = <-from:
	case <-time.After(patience):
		t.Fatalf("never: %s", what)
	}
	return value
}

// The parts of a body reach the back end as the client sends them. After it, the connection
// takes the next request.
func TestBodiesPassAsTheyCome(t *testing.T) {
	t.Parallel()
	forms(t, func(t *testing.T, length int) {
		t.Helper()
		part := strings.Repeat("part ", long/5/4)
		parts := make(chan string, 4)
		r := sending(t, func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("X-Marked") != "yes" {
				t.Errorf("the policy has set nothing: %v", r.Header)
			}
			if want := int64(length); r.ContentLength != want {
				t.Errorf("Content-Length %d, want %d", r.ContentLength, want)
			}
			for range 4 {
				// What remains of a part when the next has not been sent may wait in a buffer.
				some := make([]byte, len(part)-8<<10)
				if _, err := io.ReadFull(r.Body, some); err != nil {
					t.Error(err)
					return
				}
				parts <- string(some)
			}
			rest, err := io.ReadAll(r.Body)
			if err != nil {
				t.Error(err)
			}
			fmt.Fprint(w, len(rest))
		}, func(o operation) operation { return o.with("policies", m{"inbound": []string{"key", "mark"}}) })
		s := r.begin(t, length)
		for again := range 2 {
			if again > 0 {
				s.head(length)
			}
			for range 4 {
				s.send(part)
				if text := await(t, parts, "the back end has the part"); len(text) != len(part)-8<<10 {
					t.Errorf("the back end has %d bytes", len(text))
				}
			}
			if s.chunked {
				s.send("")
			}
			status, text, closed := s.read()
			if status != 200 || text != strconv.Itoa(4*8<<10) {
				t.Errorf("answer %d %q", status, text)
			}
			if closed {
				t.Fatal("the connection is closed")
			}
		}
	})
}

// A short body of known length, and one that something needs as a whole, reaches the back end
// at once.
func TestBodiesThatAreReadWhole(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		length int
		change func(operation) operation
	}{
		"short":     {64 << 10, nil},
		"a policy":  {long, func(o operation) operation { return o.with("policies", m{"inbound": []string{"key", "size"}}) }},
		"redirects": {long, func(o operation) operation { o.handler["options"].(m)["followRedirects"] = true; return o }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			asked := make(chan struct{}, 1)
			ended := make(chan got, 1)
			r := sending(t, func(w http.ResponseWriter, r *http.Request) {
				asked <- struct{}{}
				swallow(ended)(w, r)
			}, row.change)
			s := r.begin(t, row.length)
			s.send(strings.Repeat("x", row.length-1))
			select {
			case <-asked:
				t.Error("the back end is asked before the body is there")
			case <-time.After(300 * time.Millisecond):
			}
			s.send("x")
			if status, text, _ := s.read(); status != 200 || text != strconv.Itoa(row.length) {
				t.Errorf("answer %d %q", status, text)
			}
		})
	}
}

// A body that its client does not end is none that looks whole to the back end, which is not
// asked any longer.
func TestBodiesThatBreakOff(t *testing.T) {
	t.Parallel()
	forms(t, func(t *testing.T, length int) {
		t.Helper()
		ended := make(chan got, 1)
		gone := make(chan struct{})
		r := sending(t, func(w http.ResponseWriter, r *http.Request) {
			swallow(ended)(w, r)
			<-r.Context().Done()
			close(gone)
		}, nil)
		s := r.begin(t, length)
		s.send(strings.Repeat("x", long/2))
		_ = s.conn.Close()
		if g := await(t, ended, "the body ends for the back end"); g.err == nil {
			t.Errorf("the back end takes %d bytes for the whole", g.bytes)
		}
		await(t, gone, "the request to the back end ends")
	})
}

// A body that is too long is refused before the back end is asked, if that is known; otherwise the
// back end gets a cut one.
func TestBodiesThatAreTooLong(t *testing.T) {
	t.Parallel()
	for name, length := range map[string]int{"of known length": 1<<20 + 1, "in chunks": -1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ended := make(chan got, 1)
			r := sending(t, swallow(ended), nil)
			s := r.begin(t, length)
			go func() {
				s.send(strings.Repeat("x", 1<<20+1))
				s.send("")
			}()
			status, text, closed := s.read()
			if status != http.StatusRequestEntityTooLarge || !strings.Contains(text, "TOO_LARGE") {
				t.Errorf("answer %d %s", status, text)
			}
			if !closed {
				t.Error("the connection stays open")
			}
			if length > 0 {
				if len(ended) > 0 {
					t.Error("the back end was asked")
				}
				return
			}
			if g := await(t, ended, "the body ends for the back end"); g.err == nil || g.bytes > 1<<20 {
				t.Errorf("the back end has %d bytes, then %v", g.bytes, g.err)
			}
		})
	}
}

// As many bytes as are allowed pass.
func TestTheLongestBody(t *testing.T) {
	t.Parallel()
	r := sending(t, swallow(make(chan got, 1)), nil)
	r.do(http.MethodPost, "/forward", strings.Repeat("x", 1<<20)).want(200, strconv.Itoa(1<<20))
}

// A client that is too slow is refused, and the back end gets a cut body.
func TestClientsThatAreTooSlow(t *testing.T) {
	t.Parallel()
	forms(t, func(t *testing.T, length int) {
		t.Helper()
		ended := make(chan got, 1)
		r := sending(t, swallow(ended), nil)
		s := r.begin(t, length)
		s.send(strings.Repeat("x", 1000))
		status, text, closed := s.read()
		if status != http.StatusRequestTimeout || !strings.Contains(text, "REQUEST_TIMEOUT") {
			t.Errorf("answer %d %s", status, text)
		}
		if !closed {
			t.Error("the connection stays open")
		}
		// What was not worth a packet by then has not reached the back end at all.
		select {
		case g := <-ended:
			if g.err == nil {
				t.Errorf("the back end takes %d bytes for the whole", g.bytes)
			}
		case <-time.After(time.Second):
		}
	})
}

// The time of a route stands still while its client sends, and goes on while the back end is
// waited for.
func TestTimeOfAPassedBody(t *testing.T) {
	t.Parallel()
	oneSecond := func(o operation) operation { return o.with("timeoutSeconds", 1) }
	t.Run("slow client", func(t *testing.T) {
		t.Parallel()
		r := sending(t, swallow(make(chan got, 1)), oneSecond)
		s := r.begin(t, long)
		for range 10 {
			s.send(strings.Repeat("x", long/10))
			<-time.After(250 * time.Millisecond)
		}
		if status, text, _ := s.read(); status != 200 || text != strconv.Itoa(long) {
			t.Errorf("answer %d %q", status, text)
		}
	})
	t.Run("slow back end", func(t *testing.T) {
		t.Parallel()
		over := make(chan struct{})
		r := sending(t, func(http.ResponseWriter, *http.Request) { <-over }, oneSecond)
		r.do(http.MethodPost, "/forward", strings.Repeat("x", 1<<20)).problem(http.StatusGatewayTimeout, "GATEWAY_TIMEOUT")
		close(over)
	})
	t.Run("back end that reads and does not answer", func(t *testing.T) {
		t.Parallel()
		r := sending(t, func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
		}, oneSecond)
		r.do(http.MethodPost, "/forward", strings.Repeat("x", long)).problem(http.StatusGatewayTimeout, "GATEWAY_TIMEOUT")
	})
}

// An answer that the back end gives before it has the body is the answer. The client need not
// send the rest.
func TestAnswersBeforeTheBody(t *testing.T) {
	t.Parallel()
	forms(t, func(t *testing.T, length int) {
		t.Helper()
		r := sending(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Connection", "close") // else net/http reads the body first
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w, "not for you")
		}, nil)
		s := r.begin(t, length)
		s.send(strings.Repeat("x", long/2))
		status, text, closed := s.read()
		if status != http.StatusForbidden || text != "not for you" {
			t.Errorf("answer %d %q", status, text)
		}
		if !closed {
			t.Error("the connection stays open, in the middle of a body")
		}
	})
}

// A back end may answer while it reads: both directions go on.
func TestBackEndsThatAnswerWhileTheyRead(t *testing.T) {
	t.Parallel()
	r := sending(t, func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		if err := control.EnableFullDuplex(); err != nil {
			t.Error(err)
		}
		part := make([]byte, 1000)
		for {
			n, err := r.Body.Read(part)
			_, _ = w.Write(part[:n])
			_ = control.Flush()
			if err != nil {
				return
			}
		}
	}, func(o operation) operation { return o.with("timeoutSeconds", 1) })
	s := r.begin(t, -1)
	s.send("one ")
	response, err := http.ReadResponse(s.answer, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	for _, next := range []string{"two ", "three", ""} {
		if _, err := io.ReadFull(response.Body, make([]byte, 4)); err != nil {
			t.Fatal(err)
		}
		<-time.After(700 * time.Millisecond) // longer, in all, than the route may take
		s.send(next)
	}
	if rest, err := io.ReadAll(response.Body); err != nil || string(rest) != "e" {
		t.Errorf("the rest is %q, %v", rest, err)
	}
}

// An answer whose body the client has not sent to the end is cut, and not ended as if it
// were whole.
func TestAnswersToBodiesThatBreakOff(t *testing.T) {
	t.Parallel()
	r := sending(t, func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		_ = control.EnableFullDuplex()
		_, _ = io.WriteString(w, "begun")
		_ = control.Flush()
		_, _ = io.Copy(io.Discard, r.Body)
	}, nil)
	s := r.begin(t, long)
	s.send(strings.Repeat("x", long/2))
	response, err := http.ReadResponse(s.answer, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if _, err := io.ReadFull(response.Body, make([]byte, 5)); err != nil {
		t.Fatal(err)
	}
	_ = s.conn.(*net.TCPConn).CloseWrite()
	if rest, err := io.ReadAll(response.Body); err == nil {
		t.Errorf("the answer looks whole, after %q", rest)
	}
}

// A body that was passed on is not sent a second time, not even when the back end closes a
// connection that has been used before.
func TestPassedBodiesAreNotRepeated(t *testing.T) {
	t.Parallel()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var requests atomic.Int64
	served := make(chan struct{})
	go func() {
		defer close(served)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			in := bufio.NewReader(conn)
			for {
				request, err := http.ReadRequest(in)
				if err != nil {
					break
				}
				if requests.Add(1) > 1 {
					_, _ = io.ReadFull(request.Body, make([]byte, 1000))
					break
				}
				_, _ = io.Copy(io.Discard, request.Body)
				_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood")
			}
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() {
		_ = listener.Close()
		<-served
	})
	r := newRig(t, files{"a.oas.json": document(operation{
		method: "PUT", path: "/forward", id: "forward", handler: runtimeHandler("urlForwardHandler", m{"baseUrl": "http://" + listener.Addr().String()}),
	})}, nil)
	text := strings.Repeat("x", 1<<20)
	r.do(http.MethodPut, "/forward", text).want(200, "good")
	r.do(http.MethodPut, "/forward", text).problem(http.StatusBadGateway, "BAD_GATEWAY")
	if n := requests.Load(); n != 2 {
		t.Errorf("the back end got %d requests", n)
	}
}

// A body that is passed on takes a small part of the memory of bodies; without it the answer
// is 503.
func TestMemoryOfPassedBodies(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(swallow(make(chan got, 10)))
	t.Cleanup(server.Close)
	dir := t.TempDir()
	(&rig{t: t, dir: dir}).write(files{"a.oas.json": document(operation{
		method: "POST", path: "/forward", id: "forward", handler: runtimeHandler("urlForwardHandler", m{"baseUrl": server.URL}),
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
			request := httptest.NewRequestWithContext(context.Background(), http.MethodPost, "/forward", bytes.NewReader(make([]byte, 900_000)))
			g.ServeHTTP(w, request)
			if w.Code != want {
				t.Errorf("with %d bytes: %d %.100s", size, w.Code, w.Body)
			}
		}
		closed(t, g)
	}
}
