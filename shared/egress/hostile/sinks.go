package hostile

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

const chunk = 32 << 10

// Sinks returns all hostile receivers. Those with TLS have certificates that no client should trust.
func Sinks() []Sink {
	sinks := silent()
	sinks = append(sinks, headers()...)
	sinks = append(sinks, bodies()...)
	sinks = append(sinks, statuses()...)
	sinks = append(sinks, malformed()...)
	sinks = append(sinks, redirects()...)
	sinks = append(sinks, connections()...)
	sinks = append(sinks, retries()...)
	return append(sinks, overTLS()...)
}

// on returns a sink that runs behave once it has read a request.
func on(name string, status int, behave func(*conn)) Sink {
	return raw(name, status, func(c *conn) {
		if c.request() {
			behave(c)
		}
	})
}

// raw returns a sink that runs behave from the start of a connection.
func raw(name string, status int, behave func(*conn)) Sink {
	return Sink{Name: name, Status: status, Start: func(tb testing.TB) string {
		return "http://" + serve(tb, behave) + "/hook"
	}}
}

// says returns a sink that answers with text and then waits for more bytes.
func says(name string, status int, text string) Sink {
	return on(name, status, func(c *conn) {
		c.send(text)
		c.hold()
	})
}

// closes is says, but closes the connection at the end of text.
func closes(name string, status int, text string) Sink {
	return on(name, status, func(c *conn) { c.send(text) })
}

func silent() []Sink {
	return []Sink{
		raw("accepts and is silent", 0, (*conn).hold),
		on("reads and is silent", 0, (*conn).hold),
		says("half a status line", 0, "HTTP/1.1 2"),
		says("half a header", 0, "HTTP/1.1 200 OK\r\nContent-Len"),
		raw("does not read", 0, func(c *conn) { <-c.stop }),
	}
}

func headers() []Sink {
	long := strings.Repeat("x", chunk)
	many := strings.Repeat("X-Header: value\r\n", 1000)
	return []Sink{
		on("a byte of header every 100 ms", 0, func(c *conn) {
			if c.send("HTTP/1.1 200 OK\r\nX-Slow: ") {
				c.drip("x", 100*time.Millisecond)
			}
		}),
		on("endless header line", 0, func(c *conn) {
			if c.send("HTTP/1.1 200 OK\r\nX-Long: ") {
				c.forever(long)
			}
		}),
		on("endless headers", 0, func(c *conn) {
			if c.send("HTTP/1.1 200 OK\r\n") {
				c.forever(many)
			}
		}),
		on("endless status line", 0, func(c *conn) {
			if c.send("HTTP/1.1 200 ") {
				c.forever(long)
			}
		}),
		on("103 flood", 0, func(c *conn) { c.forever("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n") }),
		on("100 flood", 0, func(c *conn) { c.forever("HTTP/1.1 100 Continue\r\n\r\n") }),
		on("103 every 200 ms", 0, func(c *conn) { c.drip("HTTP/1.1 103 Early Hints\r\n\r\n", 200*time.Millisecond) }),
		says("header name with a space", 200, "HTTP/1.1 200 OK\r\nX Y: 1\r\nContent-Length: 2\r\n\r\nok"),
		closes("bare CR in a header", 0, "HTTP/1.1 200 OK\r\nX: a\rb\r\nContent-Length: 2\r\n\r\nok"),
		closes("ESC in a header", 0, "HTTP/1.1 200 OK\r\nX: \x1b[2J\r\nContent-Length: 2\r\n\r\nok"),
		closes("NUL in a header", 0, "HTTP/1.1 200 OK\r\nX: a\x00b\r\nContent-Length: 2\r\n\r\nok"),
		closes("header without a colon", 0, "HTTP/1.1 200 OK\r\nhunter2\r\n\r\n"),
		says("cookies and upgrades", 200, "HTTP/1.1 200 OK\r\nSet-Cookie: a=b\r\nAlt-Svc: h2=\":443\"\r\nRefresh: 0\r\nContent-Length: 2\r\n\r\nok"),
	}
}

func bodies() []Sink {
	long := strings.Repeat("x", chunk)
	return []Sink{
		on("a byte of body every 100 ms", 200, func(c *conn) {
			if c.send("HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n") {
				c.drip("x", 100*time.Millisecond)
			}
		}),
		on("endless body", 200, func(c *conn) {
			if c.send("HTTP/1.1 200 OK\r\n\r\n") {
				c.forever(long)
			}
		}),
		on("endless chunks", 200, func(c *conn) {
			if c.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n") {
				c.forever(fmt.Sprintf("%x\r\n%s\r\n", chunk, long))
			}
		}),
		on("chunks of one byte", 200, func(c *conn) {
			if c.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n") {
				c.forever(strings.Repeat("1\r\nx\r\n", 1000))
			}
		}),
		on("chunk extension flood", 200, func(c *conn) {
			if c.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n") {
				c.forever("1;" + strings.Repeat("e", 2000) + "\r\nx\r\n")
			}
		}),
		on("endless trailers", 200, func(c *conn) {
			if c.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n") {
				c.forever(strings.Repeat("X-Trailer: value\r\n", 1000))
			}
		}),
		{Name: "gzip bomb", Status: 200, Start: func(tb testing.TB) string {
			bomb := gzipBomb()
			return "http://" + serve(tb, func(c *conn) {
				if c.request() && c.send(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n", len(bomb))) {
					_, _ = c.Write(bomb)
				}
			}) + "/hook"
		}},
		says("claims gzip, sends text", 200, "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\nok"),
		says("NUL and bad UTF-8", 200, "HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\na\x00b\xff\xfe\xc3(z"),
		closes("body shorter than its length", 200, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nok"),
		says("length of 2^63-1", 200, "HTTP/1.1 200 OK\r\nContent-Length: 9223372036854775807\r\n\r\nok"),
		closes("half a chunk", 200, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n10\r\nok"),
		says("chunk of 2^64", 200, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\nok"),
		says("204 with a body", 204, "HTTP/1.1 204 No Content\r\n\r\nunasked"),
		says("bytes beyond its answer", 200, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokhunter2 \x1b[2J unasked"),
		says("two answers", 200, strings.Repeat("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", 2)),
	}
}

// gzipBomb returns 32 MiB of zeros in about 32 KiB.
func gzipBomb() []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	zeros := make([]byte, 1<<20)
	for range 32 {
		_, _ = w.Write(zeros)
	}
	_ = w.Close()
	return out.Bytes()
}

func statuses() []Sink {
	return []Sink{
		says("101", 0, "HTTP/1.1 101 Switching Protocols\r\n\r\n"),
		says("101 with an upgrade", 0, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"),
		says("status 099", 0, "HTTP/1.1 099 Low\r\nContent-Length: 2\r\n\r\nok"),
		says("status 000", 0, "HTTP/1.1 000 None\r\nContent-Length: 2\r\n\r\nok"),
		says("status 600", 0, "HTTP/1.1 600 High\r\nContent-Length: 2\r\n\r\nok"),
		says("status 999", 0, "HTTP/1.1 999 High\r\nContent-Length: 2\r\n\r\nok"),
		closes("status 20", 0, "HTTP/1.1 20 OK\r\n\r\n"),
		closes("status 200200", 0, "HTTP/1.1 200200 OK\r\n\r\n"),
		closes("negative status", 0, "HTTP/1.1 -20 OK\r\n\r\n"),
		closes("HTTP/0.9", 0, "ok"),
		closes("HTTP/9.9", 0, "HTTP/9.9.9 200 OK\r\n\r\n"),
	}
}

func malformed() []Sink {
	return []Sink{
		closes("two lengths", 0, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok"),
		closes("negative length", 0, "HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\nok"),
		closes("unknown transfer encoding", 0, "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\nok"),
		says("length and chunks", 200, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"),
		raw("SSH banner", 0, func(c *conn) {
			c.send("SSH-2.0-OpenSSH_9.2\r\n")
			c.hold()
		}),
		raw("HTTP/2 preface", 0, func(c *conn) {
			c.send("\x00\x00\x00\x04\x00\x00\x00\x00\x00")
			c.hold()
		}),
		closes("random bytes", 0, "\xde\xad\xbe\xef\r\n\r\n"),
		closes("only line breaks", 0, strings.Repeat("\r\n", 100)),
	}
}

func redirects() []Sink {
	to := func(status int, location string) Sink {
		return says(fmt.Sprintf("%d to %s", status, location), status,
			fmt.Sprintf("HTTP/1.1 %d %s\r\nLocation: %s\r\nContent-Length: 0\r\n\r\n", status, http.StatusText(status), location))
	}
	return []Sink{
		to(302, "/hook"),
		to(307, "http://169.254.169.254/latest/meta-data/"),
		to(308, "http://127.0.0.1:1/"),
		to(301, "file:///etc/passwd"),
		to(303, "//[::1]/"),
	}
}

func connections() []Sink {
	early := func(status string) func(*conn) {
		return func(c *conn) {
			// The sink reads the header but not the body: it answers before the body has come.
			if _, err := http.ReadRequest(c.reader); err != nil {
				return
			}
			c.send(status + "Content-Length: 2\r\nConnection: close\r\n\r\nok")
			c.hold()
		}
	}
	return []Sink{
		raw("closes at once", 0, func(*conn) {}),
		raw("resets at once", 0, (*conn).reset),
		on("closes after the request", 0, func(*conn) {}),
		on("resets after the request", 0, (*conn).reset),
		on("resets within the header", 0, func(c *conn) {
			c.send("HTTP/1.1 200 O")
			c.reset()
		}),
		raw("answers before the body, 200", 200, early("HTTP/1.1 200 OK\r\n")),
		raw("answers before the body, 413", 413, early("HTTP/1.1 413 Too Large\r\n")),
		closes("HTTP/1.0", 200, "HTTP/1.0 200 OK\r\n\r\nok"),
		closes("close without a length", 200, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nok"),
		on("answers one in two", 200, func(c *conn) { // closes a connection that it promised to keep
			c.send("HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok")
		}),
	}
}

func retries() []Sink {
	var sinks []Sink
	for _, value := range []string{"-1", "0", "1e12", "99999999999999999999", "NaN", "Thu, 01 Jan 1970 00:00:00 GMT", "soon"} {
		sinks = append(sinks, says("Retry-After "+value, 503, "HTTP/1.1 503 Later\r\nRetry-After: "+value+"\r\nContent-Length: 0\r\n\r\n"))
	}
	return append(sinks,
		says("two Retry-After", 429, "HTTP/1.1 429 Later\r\nRetry-After: 1\r\nRetry-After: 100000\r\nContent-Length: 0\r\n\r\n"),
		says("410", 410, "HTTP/1.1 410 Gone\r\nContent-Length: 0\r\n\r\n"),
	)
}
