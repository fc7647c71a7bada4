// Package hostile has receivers that do what a webhook's receiver must not do. The tests of
// all senders of callbacks run against each of them.
package hostile

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"
)

// Sink is one hostile receiver.
type Sink struct {
	Name string
	// Status is what a careful client reports; 0: no valid answer.
	Status int
	// Start runs the sink on loopback until the test ends, and returns its URL.
	Start func(tb testing.TB) string
}

// server serves raw connections, all with the same behaviour.
type server struct {
	listener net.Listener
	behave   func(*conn)
	running  sync.WaitGroup
	mu       sync.Mutex
	open     map[net.Conn]struct{} // nil once it is stopped
	stop     chan struct{}
}

// serve starts a server on loopback and returns its host and port.
func serve(tb testing.TB, behave func(*conn)) string {
	tb.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	s := &server{listener: listener, behave: behave, open: map[net.Conn]struct{}{}, stop: make(chan struct{})}
	s.running.Go(s.accept)
	tb.Cleanup(s.close)
	return listener.Addr().String()
}

func (s *server) accept() {
	for {
		c, err := s.listener.Accept()
		if err != nil {
			return
		}
		if !s.track(c) {
			_ = c.Close()
			return
		}
		s.running.Go(func() {
			defer s.drop(c)
			s.behave(&conn{Conn: c, reader: bufio.NewReader(c), stop: s.stop})
		})
	}
}

func (s *server) track(c net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		return false
	}
	s.open[c] = struct{}{}
	return true
}

func (s *server) drop(c net.Conn) {
	_ = c.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, c)
}

func (s *server) close() {
	close(s.stop)
	_ = s.listener.Close()
	s.mu.Lock()
	for c := range s.open {
		_ = c.Close()
	}
	s.open = nil
	s.mu.Unlock()
	s.running.Wait()
}

// conn is one connection to a sink. Errors are ignored: the connection ends with them.
type conn struct {
	net.Conn
	reader *bufio.Reader
	stop   chan struct{}
}

// request reads one request with its body; false: there is no more.
func (c *conn) request() bool {
	r, err := http.ReadRequest(c.reader)
	if err != nil {
		return false
	}
	_, err = io.Copy(io.Discard, r.Body)
	return err == nil
}

func (c *conn) send(text string) bool {
	_, err := io.WriteString(c, text)
	return err == nil
}

// forever sends text again and again, as fast as the client takes it.
func (c *conn) forever(text string) {
	raw := []byte(text)
	for {
		if _, err := c.Write(raw); err != nil {
			return
		}
	}
}

// drip sends text again and again, once in each interval.
func (c *conn) drip(text string, every time.Duration) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-c.stop:
			return
		case <-ticker.C:
			if !c.send(text) {
				return
			}
		}
	}
}

// hold keeps the connection until the other side closes it or the test ends.
func (c *conn) hold() { _, _ = io.Copy(io.Discard, c.reader) }

// reset closes the connection with a RST.
func (c *conn) reset() {
	if tcp, ok := c.Conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
}
