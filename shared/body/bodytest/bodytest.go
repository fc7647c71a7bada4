// Package bodytest has clients for tests that send as slowly as a test wants, in the time of a
// bubble of package synctest.
package bodytest

import (
	"bufio"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"
)

// pipes is a listener whose connections are pipes, which use the time of a bubble.
type pipes struct {
	accepted chan net.Conn
	closed   chan struct{}
	close    func()
}

func newPipes() *pipes {
	p := &pipes{accepted: make(chan net.Conn), closed: make(chan struct{})}
	p.close = sync.OnceFunc(func() { close(p.closed) })
	return p
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.accepted:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.close()
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1)} }

// Sender is a client that sends as slowly as a test wants.
type Sender struct {
	t      *testing.T
	Conn   net.Conn
	answer *bufio.Reader
}

// StartServer starts a server for the handler, with the deadlines of the real server. connect
// connects a client. Server and clients end with the test, which runs in a bubble of package synctest.
func StartServer(t *testing.T, handler http.Handler) (connect func() *Sender) {
	t.Helper()
	listener := newPipes()
	server := &http.Server{
		Handler: handler, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 15 * time.Second, WriteTimeout: 40 * time.Second, IdleTimeout: 60 * time.Second,
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		_ = server.Close()
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("serve: %v", err)
		}
		<-time.After(time.Second) // net/http waits half of that before it lets go of a connection
	})
	return func() *Sender {
		here, there := net.Pipe()
		listener.accepted <- there
		t.Cleanup(func() { _ = here.Close() })
		return &Sender{t: t, Conn: here, answer: bufio.NewReader(here)}
	}
}

// Head sends the header of a POST to a path. length is the length of the body in the header; below
// zero: the body comes in chunks.
func (s *Sender) Head(path string, length int) {
	s.t.Helper()
	head := "POST " + path + " HTTP/1.1\r\nHost: waybill\r\nX-API-Key: some-key\r\n"
	if length < 0 {
		head += "Transfer-Encoding: chunked\r\n\r\n"
	} else {
		head += "Content-Length: " + strconv.Itoa(length) + "\r\n\r\n"
	}
	if _, err := io.WriteString(s.Conn, head); err != nil {
		s.t.Fatal(err)
	}
}

// Send sends text at perSecond bytes a second, until the server takes no more.
func (s *Sender) Send(text string, perSecond int) {
	for text != "" {
		n := min(len(text), max(1, perSecond/10))
		if _, err := io.WriteString(s.Conn, text[:n]); err != nil {
			return
		}
		text = text[n:]
		<-time.After(time.Second / 10 * time.Duration(n) / time.Duration(max(1, perSecond/10)))
	}
}

// Read reads an answer and fails the test if none comes.
func (s *Sender) Read() (*http.Response, string) {
	s.t.Helper()
	response, err := http.ReadResponse(s.answer, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return response, string(text)
}
