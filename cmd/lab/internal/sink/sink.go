// Package sink is a receiver of callbacks for tests and chaos runs: it counts what
// arrives for each webhook, checks signatures with the library of Standard Webhooks,
// which shares no code with Waybill, and answers as it is configured.
package sink

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// maxBody is far above what a callback can have.
const maxBody = 4 << 20

// Sink is an HTTP server on a loopback port with any number of endpoints.
type Sink struct {
	address string

	mu        sync.Mutex
	endpoints map[string]*Endpoint
	server    *http.Server // nil: down
	served    chan struct{}
	closed    chan struct{}
}

// New starts a sink on a free port.
func New() (*Sink, error) {
	s := &Sink{address: "127.0.0.1:0", endpoints: make(map[string]*Endpoint), closed: make(chan struct{})}
	if err := s.Up(); err != nil {
		return nil, err
	}
	return s, nil
}

// Up opens the port after Down, the same as before.
func (s *Sink) Up() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.server != nil {
		return errors.New("the sink is up")
	}
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", s.address)
	if err != nil {
		return fmt.Errorf("open the sink: %w", err)
	}
	s.address = l.Addr().String()
	s.server = &http.Server{
		Handler: s, ReadHeaderTimeout: time.Minute,
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
	}
	s.served = make(chan struct{})
	go func(server *http.Server, served chan struct{}) {
		defer close(served)
		_ = server.Serve(l)
	}(s.server, s.served)
	return nil
}

// Down closes the port and every connection.
func (s *Sink) Down() {
	s.mu.Lock()
	server, served := s.server, s.served
	s.server = nil
	s.mu.Unlock()
	if server == nil {
		return
	}
	_ = server.Close()
	<-served
}

// Close ends the sink and every answer that hangs.
func (s *Sink) Close() {
	s.mu.Lock()
	select {
	case <-s.closed:
	default:
		close(s.closed)
	}
	s.mu.Unlock()
	s.Down()
}

// Endpoint returns the endpoint at /name, which is made when there is none yet. It
// answers 200 unless set otherwise.
func (s *Sink) Endpoint(name string) *Endpoint {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e, ok := s.endpoints[name]; ok {
		return e
	}
	e := newEndpoint("http://" + s.address + "/" + name)
	s.endpoints[name] = e
	return e
}

// ServeHTTP implements http.Handler.
func (s *Sink) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	e, ok := s.endpoints[strings.TrimPrefix(r.URL.Path, "/")]
	s.mu.Unlock()
	if !ok {
		http.NotFound(w, r)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		http.Error(w, "the body could not be read", http.StatusBadRequest)
		return
	}
	post, answer := e.receive(r, body)
	defer e.leave()
	if answer.Hang {
		select {
		case <-r.Context().Done():
		case <-s.closed:
		}
		return
	}
	if answer.Delay > 0 {
		timer := time.NewTimer(answer.Delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-r.Context().Done():
			return
		case <-s.closed:
			return
		}
	}
	maps.Copy(w.Header(), answer.Header)
	answer.Status = cmp.Or(answer.Status, http.StatusOK)
	e.answered(post, answer.Status)
	w.WriteHeader(answer.Status)
	_, _ = io.WriteString(w, answer.Body)
}
