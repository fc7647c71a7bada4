// Package body reads the bodies of requests into memory, at a pace that their senders must keep,
// and within a bound that all requests of the process share.
package body

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"waybill.dev/shared/problem"
)

// retryAfter is how long callers should wait when there is no memory for their body.
const retryAfter = 2 * time.Second

// Memory bounds the memory of all bodies in the process. nil has no bound.
type Memory struct {
	limit   int64
	held    atomic.Int64
	refused prometheus.Counter
}

// NewMemory returns a Memory for limit bytes.
func NewMemory(limit int64, registerer prometheus.Registerer) *Memory {
	m := &Memory{limit: limit, refused: prometheus.NewCounter(prometheus.CounterOpts{
		Name: "waybill_body_memory_refused_total", Help: "Requests refused because request bodies had used all their memory.",
	})}
	registerer.MustRegister(m.refused, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "waybill_body_memory_bytes", Help: "Memory that request bodies and answers of back ends take now.",
	}, func() float64 { return float64(m.held.Load()) }))
	return m
}

// Lease returns a lease for one request, with no bytes yet.
func (m *Memory) Lease() *Lease { return &Lease{memory: m} }

// Lease is the memory that one request has taken. Several goroutines may use it. nil counts nothing.
type Lease struct {
	memory *Memory

	mu    sync.Mutex
	held  int64
	ended bool
}

// addBytes adds n bytes. The error is a problem (503).
func (l *Lease) addBytes(n int64) error {
	if l == nil || l.memory == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended || l.memory.held.Add(n) > l.memory.limit {
		if !l.ended {
			l.memory.held.Add(-n)
		}
		l.memory.refused.Inc()
		p := problem.New(problem.Unavailable, "The server has no memory for the body now. Try again.")
		p.RetryAfter = retryAfter
		return p
	}
	l.held += n
	return nil
}

// Buffer returns a buffer of size bytes, which count until Release. The error is a problem (503).
func (l *Lease) Buffer(size int) ([]byte, error) {
	if err := l.addBytes(int64(size)); err != nil {
		return nil, err
	}
	return make([]byte, size), nil
}

// Release gives back all memory of the request. Nothing can be taken after it.
func (l *Lease) Release() {
	if l == nil || l.memory == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.memory.held.Add(-l.held)
	l.held, l.ended = 0, true
}
