package load

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"waybill.dev/cmd/lab/internal/meter"
)

// Flock is endpoints that are counted together.
type Flock struct {
	Name string `json:"name"`
	// Its endpoints are those from From up to, but without, To.
	From int `json:"from"`
	To   int `json:"to"`
	// The events that may come have the numbers from First on, Events of them. Others are
	// late repeats of something earlier.
	First  int64 `json:"first"`
	Events int   `json:"events"`
	// Each says that every endpoint gets every event; otherwise each event goes to one of them.
	Each bool `json:"each"`
	// Delay is waited before the answer.
	Delay time.Duration `json:"delay,omitempty"`
	// OneIn: of so many POSTs one is answered 200 and counted, the others get a 503; 0: all
	// are answered 200.
	OneIn int64 `json:"oneIn,omitempty"`
}

// Tally is what arrived at a flock.
type Tally struct {
	Name string `json:"name"`
	// Unique are different events at an endpoint, answered 200; Repeated came again, or had
	// no business there; Refused were answered 503.
	Unique   int64 `json:"unique"`
	Repeated int64 `json:"repeated"`
	Refused  int64 `json:"refused"`
	// Seconds are from the first to the last arrival.
	Seconds float64         `json:"seconds"`
	Latency meter.Quantiles `json:"latency"`
}

// PerSecond is the rate of unique arrivals.
func (t Tally) PerSecond() float64 {
	if t.Seconds <= 0 {
		return 0
	}
	return float64(t.Unique) / t.Seconds
}

// flock counts for a Flock.
type flock struct {
	Flock
	seen                      []atomic.Uint64 // a bit an endpoint and event
	unique, repeated, refused atomic.Int64
	posts                     atomic.Int64
	firstArrival, lastArrival atomic.Int64 // nanoseconds since 1970; 0: none
	latency                   meter.Histogram
}

func newFlock(f Flock) *flock {
	marks := f.Events
	if f.Each {
		marks *= f.To - f.From
	}
	return &flock{Flock: f, seen: make([]atomic.Uint64, (marks+63)/64)}
}

// arrived counts a POST of event n at an endpoint and reports whether to answer 200.
func (f *flock) arrived(endpoint int, n int64, sent, now time.Time) bool {
	post := f.posts.Add(1)
	if f.OneIn > 1 && post%f.OneIn != 0 {
		f.refused.Add(1)
		return false
	}
	mark := n - f.First
	if mark < 0 || mark >= int64(f.Events) {
		f.repeated.Add(1)
		return true
	}
	if f.Each {
		mark += int64(endpoint-f.From) * int64(f.Events)
	}
	bit := uint64(1) << (mark % 64)
	if f.seen[mark/64].Or(bit)&bit != 0 {
		f.repeated.Add(1)
		return true
	}
	f.unique.Add(1)
	f.firstArrival.CompareAndSwap(0, now.UnixNano())
	f.lastArrival.Store(now.UnixNano())
	f.latency.Add(now.Sub(sent))
	return true
}

func (f *flock) tally() Tally {
	t := Tally{
		Name: f.Name, Unique: f.unique.Load(), Repeated: f.repeated.Load(), Refused: f.refused.Load(),
		Latency: f.latency.Quantiles(),
	}
	if first := f.firstArrival.Load(); first != 0 {
		t.Seconds = time.Duration(f.lastArrival.Load() - first).Seconds()
	}
	return t
}

// faults keeps the first of what is wrong with callbacks, and counts all.
type faults struct {
	count atomic.Int64
	mu    sync.Mutex
	first string
}

func (f *faults) add(format string, args ...any) {
	if f.count.Add(1) == 1 {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.first = fmt.Sprintf(format, args...)
	}
}

func (f *faults) read() (int64, string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.count.Load(), f.first
}
