package egress_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log" //nolint:depguard // where net/http writes
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/egress"
	"waybill.dev/shared/egress/hostile"
)

// receiver starts one whose connections are counted.
func receiver(tb testing.TB, h http.HandlerFunc) (url string, connections *atomic.Int64) {
	tb.Helper()
	connections = new(atomic.Int64)
	s := httptest.NewUnstartedServer(h)
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	s.Start()
	tb.Cleanup(s.Close)
	return s.URL, connections
}

func client(tb testing.TB, o egress.Options) *egress.Client {
	tb.Helper()
	c := dev(tb).NewClient(o)
	tb.Cleanup(c.Close)
	return c
}

func post(tb testing.TB, c *egress.Client, url, body string) egress.Response {
	tb.Helper()
	return c.Post(tb.Context(), &egress.Request{URL: url, Header: []egress.Field{{"Content-Type", "application/json"}}, Body: []byte(body)})
}

func TestPostSendsWhatItIsGiven(t *testing.T) {
	t.Parallel()
	type got struct {
		method, path, body, proto string
		header                    http.Header
		length                    int64
	}
	seen := make(chan got, 1)
	url, _ := receiver(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		seen <- got{r.Method, r.RequestURI, string(body), r.Proto, r.Header, r.ContentLength}
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(http.StatusAccepted)
		_, _ = io.WriteString(w, "thank you")
	})
	r := client(t, egress.Options{}).Post(t.Context(), &egress.Request{
		URL: url + "/a%2fb?x=1", Body: []byte(`{"a":1}`),
		Header: []egress.Field{{"Content-Type", "application/json"}, {"User-Agent", "Waybill/1"}, {"webhook-id", "evt_1"}},
	})
	if r.Status != 202 || r.Body != "thank you" || r.Code != "" || r.Err != nil || len(r.RetryAfter) != 1 || r.RetryAfter[0] != "7" {
		t.Errorf("response %+v", r)
	}
	g := <-seen
	if g.method != "POST" || g.path != "/a%2fb?x=1" || g.body != `{"a":1}` || g.proto != "HTTP/1.1" || g.length != 7 {
		t.Errorf("request %+v", g)
	}
	want := []string{"Content-Type", "User-Agent", "Webhook-Id", "Content-Length"}
	for name := range g.header {
		if !strings.Contains(strings.Join(want, " "), name) {
			t.Errorf("request has a header nobody set: %s", name)
		}
	}
}

// Every hostile receiver ends an attempt in time and in bounds, with what it did told
// rightly.
func TestHostileSinks(t *testing.T) { // not parallel: it counts what is allocated
	const deadline, slack, mostAllocated = 400 * time.Millisecond, 2 * time.Second, 4 << 20 // slack: other tests have the processor, too
	quiet(t)
	if _, err := x509.SystemCertPool(); err != nil { // loaded once in a process: no attempt's cost
		t.Fatal(err)
	}
	body := bytes.Repeat([]byte("x"), 256<<10)
	for _, sink := range hostile.Sinks() {
		t.Run(sink.Name, func(t *testing.T) {
			url := sink.Start(t)
			c := client(t, egress.Options{TLSTimeout: deadline})
			ctx, cancel := context.WithTimeout(t.Context(), deadline)
			defer cancel()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			start := time.Now()
			r := c.Post(ctx, &egress.Request{URL: url, Body: body})
			took := time.Since(start)
			runtime.ReadMemStats(&after)
			if took > deadline+slack {
				t.Errorf("took %v", took)
			}
			if used := after.TotalAlloc - before.TotalAlloc; used > mostAllocated {
				t.Errorf("%d bytes were allocated", used)
			}
			if r.Status != sink.Status || (r.Status == 0) != (r.Code != "") {
				t.Errorf("status %d, code %q (%v), want status %d", r.Status, r.Code, r.Err, sink.Status)
			}
			if len(r.Body) > egress.MaxKept || !utf8.ValidString(r.Body) || strings.Contains(r.Body, "\x00") {
				t.Errorf("body of %d bytes is kept: %.50q", len(r.Body), r.Body)
			}
			if r.Err != nil && strings.Contains(r.Err.Error(), "hunter2") {
				t.Errorf("error has the receiver's text: %v", r.Err)
			}
		})
	}
}

// What a receiver says beside its status does not decide, up to 64 KiB of it.
func TestAnswersWithManyHeaders(t *testing.T) {
	t.Parallel()
	for name, header := range map[string]string{
		"many":         strings.Repeat("X-A: "+strings.Repeat("y", 100)+"\r\n", 590),
		"one":          "X-A: " + strings.Repeat("y", 63<<10) + "\r\n",
		"early hints":  "X-A: 1\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: " + strings.Repeat("y", 60<<10) + "\r\n\r\nHTTP/1.1 200 OK\r\n",
		"one too many": "X-A: " + strings.Repeat("y", 64<<10) + "\r\n",
	} {
		start := "HTTP/1.1 200 OK\r\n"
		if name == "early hints" {
			start = "HTTP/1.1 103 Early Hints\r\n"
		}
		url := answering(t, start+header+"Content-Length: 2\r\n\r\nok")
		r := client(t, egress.Options{}).Post(t.Context(), &egress.Request{URL: url, Timeout: 10 * time.Second})
		if name == "one too many" {
			if r.Status != 0 || r.Code != egress.CodeHeaderTooLarge {
				t.Errorf("%s: %d %q", name, r.Status, r.Code)
			}
			continue
		}
		if r.Status != http.StatusOK || r.Body != "ok" || r.Truncated {
			t.Errorf("%s: %d %q %q %v", name, r.Status, r.Code, r.Body, r.Err)
		}
	}
}

// A body of which a part is not kept is told from one that is kept whole.
func TestTruncatedBodies(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		body string
		kept int
		want bool
	}{
		{"", 0, false},
		{strings.Repeat("x", egress.MaxKept), egress.MaxKept, false},
		{strings.Repeat("x", egress.MaxKept+1), egress.MaxKept, true},
		{strings.Repeat("é", egress.MaxKept/2), egress.MaxKept, false},
		{"x" + strings.Repeat("é", egress.MaxKept/2), egress.MaxKept - 1, true},
		{strings.Repeat("a\xff", 1500), egress.MaxKept, true}, // each \xff takes three bytes more
		{strings.Repeat("x", egress.MaxRead+1), egress.MaxKept, true},
	} {
		for _, form := range []string{
			fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(c.body), c.body),
			fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%s0\r\n\r\n", chunked(c.body)),
			"Connection: close\r\n\r\n" + c.body,
		} {
			url := answering(t, "HTTP/1.1 200 OK\r\n"+form)
			r := client(t, egress.Options{}).Post(t.Context(), &egress.Request{URL: url, Timeout: 10 * time.Second})
			if r.Status != http.StatusOK || len(r.Body) != c.kept || r.Truncated != c.want {
				t.Errorf("%d bytes, %.20q: status %d, %d bytes kept, truncated %t", len(c.body), form, r.Status, len(r.Body), r.Truncated)
			}
		}
	}
}

func chunked(body string) string {
	if body == "" {
		return ""
	}
	return fmt.Sprintf("%x\r\n%s\r\n", len(body), body)
}

// answering returns the URL of a receiver that gives each request the same answer, and then closes.
func answering(t *testing.T, answer string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			if request, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
				_, _ = io.Copy(io.Discard, request.Body)
				_, _ = io.WriteString(conn, answer)
			}
			_ = conn.Close()
		}
	}()
	return "http://" + l.Addr().String() + "/"
}

// quiet keeps what net/http logs about hostile receivers out of the test's output.
func quiet(t *testing.T) {
	old := log.Writer()
	log.SetOutput(io.Discard)
	t.Cleanup(func() { log.SetOutput(old) })
}

func TestHealthyReceiverIsNotTouchedByHostileOnes(t *testing.T) {
	quiet(t)
	url, _ := receiver(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })
	c := client(t, egress.Options{TLSTimeout: time.Second})
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	var attacks sync.WaitGroup
	for _, sink := range hostile.Sinks() {
		target := sink.Start(t)
		for range 3 {
			attacks.Go(func() { c.Post(ctx, &egress.Request{URL: target, Body: []byte("{}")}) })
		}
	}
	for ctx.Err() == nil {
		start := time.Now()
		if r := post(t, c, url, "{}"); r.Status != 200 {
			t.Fatalf("healthy receiver: %+v", r)
		}
		if took := time.Since(start); took > time.Second {
			t.Errorf("healthy receiver took %v", took)
		}
	}
	attacks.Wait()
}

func TestRedirectsAreNeverDialled(t *testing.T) {
	t.Parallel()
	location := make(chan [2]string, 1)
	url, _ := receiver(t, func(w http.ResponseWriter, _ *http.Request) {
		next := <-location
		w.Header()["Location"] = []string{next[1]}
		var status int
		_, _ = fmt.Sscan(next[0], &status)
		w.WriteHeader(status)
	})
	own := netip.MustParseAddrPort(strings.TrimPrefix(url, "http://"))
	c := dev(t).Observed(egress.Options{Resolver: resolver(t)}, func(to netip.AddrPort) error {
		if to != own {
			t.Errorf("%v is dialled", to)
		}
		return nil
	})
	t.Cleanup(c.Close)
	for _, status := range []int{301, 302, 303, 307, 308} {
		for _, row := range urlTable(t) {
			location <- [2]string{strconv.Itoa(status), strings.Map(func(r rune) rune {
				if r < ' ' {
					return -1
				}
				return r
			}, row.url)}
			if r := post(t, c, url, "{}"); r.Status != status {
				t.Fatalf("row %d: %+v, want status %d", row.number, r, status)
			}
		}
	}
}

// net/http reads the environment's proxies once in a process, so this takes a fresh one.
func TestProxyOfTheEnvironmentIsIgnored(t *testing.T) {
	t.Parallel()
	const child = "WAYBILL_TEST_PROXY_CHILD"
	if os.Getenv(child) != "" {
		url, _ := receiver(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "direct") })
		// By a name: the environment's proxies do not count for loopback as such.
		_, port, _ := net.SplitHostPort(strings.TrimPrefix(url, "http://"))
		if r := post(t, client(t, egress.Options{Resolver: resolver(t)}), "http://a127.attacker.example:"+port+"/", "{}"); r.Body != "direct" {
			t.Errorf("response %+v", r)
		}
		return
	}
	proxy, asked := receiver(t, func(http.ResponseWriter, *http.Request) {})
	command := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestProxyOfTheEnvironmentIsIgnored$")
	command.Env = append(os.Environ(), child+"=1")
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"} {
		command.Env = append(command.Env, name+"="+proxy)
	}
	command.Env = append(command.Env, "NO_PROXY=", "no_proxy=")
	if out, err := command.CombinedOutput(); err != nil || asked.Load() != 0 {
		t.Errorf("the proxy was asked %d times, %v\n%s", asked.Load(), err, out)
	}
}

func TestOldTLSIsRefused(t *testing.T) {
	t.Parallel()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	s.TLS = &tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	trusting := egress.Options{RootCAs: s.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs}
	if r := post(t, client(t, trusting), s.URL, "{}"); r.Code != egress.CodeTLS {
		t.Errorf("TLS 1.1: %+v", r)
	}
}

func TestHTTP1OnlyAndTrustedCertificates(t *testing.T) {
	t.Parallel()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Proto) }))
	s.EnableHTTP2 = true
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	trusting := egress.Options{RootCAs: s.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs}
	if r := post(t, client(t, trusting), s.URL, "{}"); r.Body != "HTTP/1.1" {
		t.Errorf("with its certificate trusted: %+v", r)
	}
	r := post(t, client(t, egress.Options{}), s.URL, "{}")
	if r.Code != egress.CodeTLS || !strings.Contains(r.Err.Error(), "unknown authority") {
		t.Errorf("with its certificate unknown: %v", r.Err)
	}
	trusting.Resolver = resolver(t)
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(s.URL, "https://"))
	r = post(t, client(t, trusting), "https://a127.attacker.example:"+port+"/", "{}")
	if r.Code != egress.CodeTLS || !strings.Contains(r.Err.Error(), "another name") {
		t.Errorf("under another name: %v", r.Err)
	}
}

func TestNothingIsDecompressed(t *testing.T) {
	t.Parallel()
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, _ = io.WriteString(w, "plain text")
	_ = w.Close()
	url, _ := receiver(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Accept-Encoding") != "" {
			t.Error("compression is asked for")
		}
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(packed.Bytes())
	})
	if r := post(t, client(t, egress.Options{}), url, "{}"); r.Status != 200 || strings.Contains(r.Body, "plain text") {
		t.Errorf("response %+v", r)
	}
}

// One attempt is one POST, whatever headers it has and however the connection dies.
func TestOneAttemptIsOnePOST(t *testing.T) {
	t.Parallel()
	var posts atomic.Int64
	url, _ := receiver(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if posts.Add(1)%2 == 0 { // the second request of a connection is read, then it dies
			conn, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			_ = conn.Close()
			return
		}
		_, _ = io.WriteString(w, "ok")
	})
	c := client(t, egress.Options{})
	for i := range int64(200) {
		header := []egress.Field{{"Idempotency-Key", "a"}, {"X-Idempotency-Key", "a"}, {"idempotency-key", "a"}}
		body := []byte(strings.Repeat("x", int(i%2)*100)) // an empty body is no body to net/http
		r := c.Post(t.Context(), &egress.Request{URL: url, Header: header, Body: body})
		if got := posts.Load(); got != i+1 {
			t.Fatalf("%d POSTs after %d attempts", got, i+1)
		}
		if i%2 == 1 && r.Code != egress.CodeClosed && r.Code != egress.CodeReset {
			t.Errorf("attempt %d: %+v", i, r)
		}
		if len(header) != 3 {
			t.Fatal("the caller's header was changed")
		}
	}
}

func TestIdempotencyKeyAndCookiesAreNotSent(t *testing.T) {
	t.Parallel()
	url, _ := receiver(t, func(w http.ResponseWriter, r *http.Request) {
		for name := range r.Header {
			if strings.Contains(strings.ToLower(name), "idempotency") || name == "Cookie" {
				t.Errorf("%s is sent", name)
			}
		}
		http.SetCookie(w, &http.Cookie{Name: "a", Value: "b"})
	})
	c := client(t, egress.Options{})
	for range 3 {
		c.Post(t.Context(), &egress.Request{URL: url, Header: []egress.Field{{"Idempotency-Key", "a"}, {"x-idempotency-key", "b"}}, Body: []byte("{}")})
	}
}

func TestBodiesAreReadInBounds(t *testing.T) {
	t.Parallel()
	answers := make(chan string, 1)
	url, connections := receiver(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, <-answers) })
	c := client(t, egress.Options{})
	rows := []struct {
		name, answer, want string
		fresh              int64 // connections that the next attempt needs
	}{
		{"empty", "", "", 0},
		{"short", "ok", "ok", 0},
		{"4 KiB", strings.Repeat("a", 4096), strings.Repeat("a", 4096), 0},
		{"4 KiB and one", strings.Repeat("a", 4097), strings.Repeat("a", 4096), 0},
		{"cut in a character", strings.Repeat("a", 4093) + "🚚", strings.Repeat("a", 4093), 0},
		{"almost 16 KiB", strings.Repeat("a", 16<<10-1), strings.Repeat("a", 4096), 0},
		{"more than 16 KiB", strings.Repeat("a", 16<<10+1), strings.Repeat("a", 4096), 1},
		{"NUL", "a\x00b\x00", "ab", 0},
		{"bad UTF-8", "a\xff\xfeb", "a\uFFFDb", 0},
		{"bad UTF-8 grows", strings.Repeat("\xffa", 2048), strings.Repeat("\uFFFDa", 1024), 0},
	}
	want := int64(1)
	for _, row := range rows {
		answers <- row.answer
		if r := post(t, c, url, "{}"); r.Body != row.want {
			t.Errorf("%s: %d bytes kept, want %d: %.60q", row.name, len(r.Body), len(row.want), r.Body)
		}
		if got := connections.Load(); got != want {
			t.Errorf("%s: %d connections, want %d", row.name, got, want)
		}
		want += row.fresh
	}
}

func TestIdleConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	const parallel, kept = 40, 10
	gate := make(chan struct{})
	var open atomic.Int64
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-gate }))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			open.Add(1)
		case http.StateClosed, http.StateHijacked:
			open.Add(-1)
		}
	}
	s.Start()
	t.Cleanup(s.Close)
	c := client(t, egress.Options{MaxIdle: kept})
	var running sync.WaitGroup
	for range parallel {
		running.Go(func() { post(t, c, s.URL, "{}") })
	}
	waitFor(t, "all attempts at once", func() bool { return open.Load() == parallel })
	close(gate)
	running.Wait()
	waitFor(t, "idle connections to be closed", func() bool { return open.Load() == kept })
}

func waitFor(t *testing.T, what string, done func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for !done() {
		select {
		case <-ctx.Done():
			t.Fatalf("waited in vain for %s", what)
		case <-ticker.C:
		}
	}
}

// classes are those of attempts without an answer.
var classes = map[egress.Code]domain.Class{
	egress.CodeURL: domain.ClassRefused, egress.CodeAddress: domain.ClassRefused, egress.CodeDNS: domain.ClassDNS,
	egress.CodeRefused: domain.ClassConnect, egress.CodeConnectTimeout: domain.ClassConnect, egress.CodeConnect: domain.ClassConnect,
	egress.CodeTLS: domain.ClassTLS, egress.CodeTimeout: domain.ClassTimeout, egress.CodeCanceled: domain.ClassTimeout,
	egress.CodeReset: domain.ClassProtocol, egress.CodeClosed: domain.ClassProtocol, egress.CodeBadStatus: domain.ClassProtocol,
	egress.CodeHeaderTooLarge: domain.ClassProtocol, egress.CodeBadResponse: domain.ClassProtocol,
}

// Codes of what happens before a connection is there.
func TestCodes(t *testing.T) {
	t.Parallel()
	names := resolver(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := listener.Addr().String()
	_ = listener.Close()
	url, _ := receiver(t, func(http.ResponseWriter, *http.Request) {})
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	rows := []struct {
		name string
		ctx  context.Context
		url  string
		want egress.Code
	}{
		{"form", t.Context(), "http://user@127.0.0.1/?token=hunter2", egress.CodeURL},
		{"literal address", t.Context(), "http://10.0.0.1/?token=hunter2", egress.CodeAddress},
		{"refused", t.Context(), "http://" + closed + "/?token=hunter2", egress.CodeRefused},
		{"no such host", t.Context(), "http://nx.attacker.example/?token=hunter2", egress.CodeDNS},
		{"name server is silent", t.Context(), "http://silent.attacker.example/?token=hunter2", egress.CodeDNS},
		{"canceled", canceled, url + "/?token=hunter2", egress.CodeCanceled},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			c := client(t, egress.Options{Resolver: names, ConnectTimeout: 200 * time.Millisecond})
			start := time.Now()
			r := c.Post(row.ctx, &egress.Request{URL: row.url, Body: []byte("{}")})
			if r.Code != row.want || r.Status != 0 {
				t.Errorf("code %q (%v), want %q", r.Code, r.Err, row.want)
			}
			if took := time.Since(start); took > 2*time.Second {
				t.Errorf("took %v", took)
			}
			if r.Err == nil || strings.Contains(r.Err.Error()+r.Code.Text(), "hunter2") {
				t.Errorf("error for the log: %v", r.Err)
			}
			if strings.Contains(r.Code.Text(), "127.0.0.1") || strings.Contains(r.Code.Text(), "attacker") {
				t.Errorf("text for customers has the target: %s", r.Code.Text())
			}
		})
	}
	for _, code := range []egress.Code{
		egress.CodeURL, egress.CodeAddress, egress.CodeDNS, egress.CodeRefused, egress.CodeConnectTimeout, egress.CodeConnect, egress.CodeTLS,
		egress.CodeTimeout, egress.CodeReset, egress.CodeClosed, egress.CodeBadStatus, egress.CodeHeaderTooLarge, egress.CodeBadResponse, egress.CodeCanceled,
	} {
		if code.Text() == "" {
			t.Errorf("code %s has no text", code)
		}
		if class := code.Class(); class != classes[code] {
			t.Errorf("code %s is of class %q, want %q", code, class, classes[code])
		}
	}
}

// Codes of what receivers do.
func TestCodesOfHostileSinks(t *testing.T) {
	quiet(t)
	want := map[string]egress.Code{
		"accepts and is silent":        egress.CodeTimeout,
		"half a status line":           egress.CodeTimeout,
		"103 every 200 ms":             egress.CodeTimeout,
		"endless headers":              egress.CodeHeaderTooLarge,
		"103 flood":                    egress.CodeHeaderTooLarge,
		"101":                          egress.CodeBadStatus,
		"status 999":                   egress.CodeBadStatus,
		"SSH banner":                   egress.CodeBadResponse,
		"status 20":                    egress.CodeBadResponse,
		"closes after the request":     egress.CodeClosed,
		"resets after the request":     egress.CodeReset,
		"TLS: expired":                 egress.CodeTLS,
		"TLS: silent":                  egress.CodeTLS,
		"TLS: plain text":              egress.CodeTLS,
		"TLS: HTTP/2 only":             egress.CodeTLS,
		"TLS: 1.1 at most":             egress.CodeTLS,
		"TLS: closes in the handshake": egress.CodeTLS,
	}
	for _, sink := range hostile.Sinks() {
		code, listed := want[sink.Name]
		if !listed {
			continue
		}
		delete(want, sink.Name)
		t.Run(sink.Name, func(t *testing.T) {
			url := sink.Start(t)
			ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
			defer cancel()
			// The handshake has its own, shorter bound here.
			r := client(t, egress.Options{TLSTimeout: 100 * time.Millisecond}).Post(ctx, &egress.Request{URL: url, Body: []byte("{}")})
			if r.Code != code {
				t.Errorf("code %q, want %q (%v)", r.Code, code, errors.Unwrap(r.Err))
			}
		})
	}
	if len(want) > 0 {
		t.Errorf("no such sinks: %v", want)
	}
}

// A connection over which a receiver sent more than its answer, or which it has closed, is
// not used again: the next attempt succeeds on another.
func TestConnectionsThatCannotBeUsedAgain(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]string{
		"bytes beyond its answer": "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n",
		"closes without a word":   "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
		"says that it will close": "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",
		"HTTP/1.0":                "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			closed := make(chan struct{}, 100)
			url, connections := receiver(t, func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				conn, _, err := w.(http.Hijacker).Hijack()
				if err != nil {
					t.Error(err)
					return
				}
				_, _ = io.WriteString(conn, answer)
				_ = conn.Close()
				closed <- struct{}{}
			})
			c := client(t, egress.Options{})
			for i := range int64(5) {
				if r := post(t, c, url, "{}"); r.Status != 200 || r.Body != "ok" {
					t.Errorf("attempt %d: %+v", i, r)
				}
				if got := connections.Load(); got != i+1 {
					t.Errorf("%d connections after %d attempts", got, i+1)
				}
				<-closed
			}
		})
	}
}

// Of a long body a receiver may take only a part and answer all the same.
func TestAnswerBeforeAllOfABodyIsSent(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	release := make(chan struct{})
	var serving sync.WaitGroup
	serving.Go(func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		_, _ = conn.Read(make([]byte, 100))
		_, _ = io.WriteString(conn, "HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno")
		<-release
	})
	body := bytes.Repeat([]byte("x"), 64<<20) // more than the system takes on its own
	r := client(t, egress.Options{}).Post(t.Context(), &egress.Request{URL: "http://" + listener.Addr().String(), Body: body})
	close(release)
	serving.Wait()
	if r.Status != http.StatusRequestEntityTooLarge || r.Body != "no" {
		t.Errorf("response %+v", r)
	}
}

func TestAttemptsEnd(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	url, _ := receiver(t, func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-gate:
		case <-r.Context().Done():
		}
	})
	t.Cleanup(func() { close(gate) })
	c := client(t, egress.Options{})
	for name, attempt := range map[string]func() egress.Response{
		"timeout": func() egress.Response {
			return c.Post(t.Context(), &egress.Request{URL: url, Body: []byte("{}"), Timeout: 50 * time.Millisecond})
		},
		"deadline": func() egress.Response {
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			return c.Post(ctx, &egress.Request{URL: url, Body: []byte("{}")})
		},
		"canceled": func() egress.Response {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(50*time.Millisecond, cancel)
			defer cancel()
			return c.Post(ctx, &egress.Request{URL: url, Body: []byte("{}")})
		},
	} {
		started := time.Now()
		r := attempt()
		if took := time.Since(started); took > 5*time.Second {
			t.Errorf("%s: took %v", name, took)
		}
		want := egress.CodeTimeout
		if name == "canceled" {
			want = egress.CodeCanceled
		}
		if r.Code != want {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

func TestHeaderCannotBeForged(t *testing.T) {
	t.Parallel()
	url, connections := receiver(t, func(http.ResponseWriter, *http.Request) {})
	c := client(t, egress.Options{})
	for _, field := range []egress.Field{{"X-A", "a\r\nX-B: b"}, {"X-A\r\nX-B", "a"}, {"X-A: b\r\nX-C", "a"}, {"", "a"}, {"X-A", "a\x00"}} {
		r := c.Post(t.Context(), &egress.Request{URL: url, Header: []egress.Field{field}, Body: []byte("{}")})
		if r.Status != 0 || connections.Load() != 0 {
			t.Errorf("%q: %+v", field, r)
		}
	}
}

// cpuTime returns what the process has used, receivers included.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// The client against a bare http.Client that reads the answer: the ratio is what counts,
// of CPU time, which a busy machine changes least.
func BenchmarkPost(b *testing.B) {
	url, _ := receiver(b, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, "ok")
	})
	body := bytes.Repeat([]byte("x"), 1024)
	header := func() http.Header {
		return http.Header{
			"Content-Type": {"application/json"}, "User-Agent": {"Waybill/1"}, "Webhook-Id": {"evt_1"},
			"Webhook-Timestamp": {"1768469400"}, "Webhook-Signature": {"v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="},
			"Waybill-Delivery-Id": {"0000000000000000000000"}, "Waybill-Attempt": {"1"},
		}
	}
	b.Run("bare http.Client", func(b *testing.B) {
		tr := &http.Transport{MaxIdleConnsPerHost: 5000}
		defer tr.CloseIdleConnections()
		c := &http.Client{Transport: tr, Timeout: 15 * time.Second}
		b.ReportAllocs()
		b.SetParallelism(16)
		before := cpuTime(b)
		defer func() { b.ReportMetric(float64(cpuTime(b)-before)/float64(b.N), "cpu-ns/op") }()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				r, err := http.NewRequest(http.MethodPost, url, bytes.NewReader(body))
				if err != nil {
					b.Error(err)
					return
				}
				r.Header = header()
				answer, err := c.Do(r)
				if err != nil {
					b.Error(err)
					return
				}
				_, _ = io.Copy(io.Discard, answer.Body)
				_ = answer.Body.Close()
			}
		})
	})
	fields := func() []egress.Field {
		list := make([]egress.Field, 0, 8)
		for name, values := range header() {
			list = append(list, egress.Field{Name: name, Value: values[0]})
		}
		return list
	}()
	b.Run("egress.Client", func(b *testing.B) {
		c := client(b, egress.Options{})
		b.ReportAllocs()
		b.SetParallelism(16)
		before := cpuTime(b)
		defer func() { b.ReportMetric(float64(cpuTime(b)-before)/float64(b.N), "cpu-ns/op") }()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				r := c.Post(context.Background(), &egress.Request{URL: url, Header: slices.Clone(fields), Body: body, Timeout: 15 * time.Second})
				if r.Status != 200 {
					b.Error(r)
					return
				}
			}
		})
	})
}

func BenchmarkCheckURL(b *testing.B) {
	p := &egress.Policy{}
	b.ReportAllocs()
	for b.Loop() {
		if err := p.CheckURL("https://hooks.example.com/v1/hooks/shipments"); err != nil {
			b.Fatal(err)
		}
	}
}
