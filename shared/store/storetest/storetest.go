// Package storetest is the frame for the test suites of the families of tables. Each suite is next to
// its family and runs on both databases. The frame has a database server for the tests of a process,
// fresh databases, a clock that a test sets, and a comparison of a family's rows with its tables.
package storetest

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/seal"
	"waybill.dev/shared/store"
)

// Tests are the cases of a suite, by what they check. Each has a bench of its own.
type Tests[B any] map[string]func(*testing.T, B)

// Run runs groups of cases on both databases. bench turns a migrated store into
// the bench of the family's cases.
func Run[B any](t *testing.T, bench func(*Bench) B, groups map[string]Tests[B]) {
	t.Helper()
	t.Parallel()
	Each(t, func(t *testing.T, kind Kind) {
		for group, tests := range groups {
			for name, test := range tests {
				t.Run(group+"/"+name, func(t *testing.T) {
					t.Parallel()
					test(t, bench(newBench(t, kind.Fresh(t))))
				})
			}
		}
	})
}

// Bench is a migrated store with a clock that stands still until it is moved.
type Bench struct {
	DB    *store.Store
	Clock *Clock

	mu     sync.Mutex
	serial int
}

// noon is the time at which the suites' clocks start: far from midnight.
var noon = time.Date(2025, time.June, 10, 12, 0, 0, 0, time.UTC) //nolint:gochecknoglobals // a constant

// Noon returns the time at which the suites' clocks start: far from midnight.
func Noon() time.Time { return noon }

func newBench(t *testing.T, d Database) *Bench {
	t.Helper()
	keys, err := seal.Parse(seal.Generate())
	if err != nil {
		t.Fatal(err)
	}
	clock := &Clock{now: noon}
	return &Bench{DB: d.Open(t, store.Options{Keys: keys, Now: clock.Now}), Clock: clock}
}

// Next returns a number for each thing that a case makes: 1, 2, 3…
func (b *Bench) Next() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.serial++
	return b.serial
}

// Clock is a clock that is set by hand.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// Now returns the time that was set.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Advance moves the clock on.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// Set sets the clock.
func (c *Clock) Set(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = t
}

// Walk reads a list by its offsets. It fails the test when a page is larger than it may be or ends
// before the list does.
func Walk(t *testing.T, total int, page func(offset int) (names []string, bytes, total int)) []string {
	t.Helper()
	var all []string
	for len(all) < total {
		names, size, n := page(len(all))
		if n != total || len(names) == 0 || size > store.MaxPageBytes && len(names) > 1 {
			t.Fatalf("after %d: %d entries of %d bytes, total %d, want %d", len(all), len(names), size, n, total)
		}
		all = append(all, names...)
	}
	return all
}

// WantNotFound fails the test unless err says that something was not found.
func WantNotFound(t *testing.T, doing string, err error) {
	t.Helper()
	if !errors.Is(err, domain.ErrNotFound) {
		t.Errorf("%s: %v, want not found", doing, err)
	}
}

// WantConflict fails the test unless err is a conflict.
func WantConflict(t *testing.T, doing string, err error) {
	t.Helper()
	if !errors.Is(err, domain.ErrConflict) {
		t.Errorf("%s: %v, want a conflict", doing, err)
	}
}

// Secrets makes cmp compare the values of secrets.
func Secrets() cmp.Option {
	return cmp.Comparer(func(a, b domain.Secret) bool { return a.Reveal() == b.Reveal() })
}
