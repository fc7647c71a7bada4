// Package metering holds consumers to their plans, and counts what they use. It knows the usage of
// a consumer as the database had it half a second ago, plus exactly what this process has added
// since: each count of the process has the number of the batch that writes it, and the database
// says which batch of the process it has written last.
package metering

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"waybill.dev/services/gateway/internal/route"
	"waybill.dev/shared/apikey"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/problem"
	"waybill.dev/shared/store/metering"
)

// Store has plans and counts.
type Store interface {
	Entitlements(ctx context.Context, consumers []string) (map[string]*metering.Entitlements, error)
	HoursOf(ctx context.Context, writer string, consumers []string, from, before time.Time) (metering.Hours, error)
	Used(ctx context.Context, consumer string, g *domain.Grant, start, end time.Time) (int64, error)
}

// Counts takes the counts to write.
type Counts interface {
	// Meter adds a count, and returns the number of the batch that writes it.
	Meter(key metering.HourKey, n metering.Count) (batch int64)
	// Writer names the writer of the batches.
	Writer() string
}

// Maximum ages of the knowledge about a consumer.
const (
	refreshAfter = 400 * time.Millisecond // older knowledge is read again in the background
	staleAfter   = time.Second            // with older knowledge, requests wait for the reading
	readTime     = 2 * time.Second
	forgetAfter  = 10 * time.Minute
)

// Options of Meters; Registerer may be left out.
type Options struct {
	Store      Store
	Counts     Counts
	Now        func() time.Time // nil: time.Now
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// Meters knows the consumers that have called recently. It implements route.Meters.
type Meters struct {
	options Options
	unknown prometheus.Counter
	failing atomic.Bool

	mu        sync.Mutex
	consumers map[string]*consumer // by id
	sweptAt   time.Time
}

// New returns meters that know no consumer yet.
func New(o Options) *Meters {
	if o.Now == nil {
		o.Now = time.Now
	}
	m := &Meters{options: o, consumers: make(map[string]*consumer), sweptAt: o.Now(), unknown: prometheus.NewCounter(prometheus.CounterOpts{
		Name: "waybill_gateway_usage_unknown_total", Help: "Metered requests that passed though the usage of their consumer could not be read: the last known one counted, or none.",
	})}
	if o.Registerer != nil {
		o.Registerer.MustRegister(m.unknown)
	}
	return m
}

// Begin implements route.Meters.
func (m *Meters) Begin(ctx context.Context, who *apikey.Principal, use []route.Use, dims route.Dims) (func(counts bool, status string), error) {
	if who == nil {
		return nil, problem.KeyRequired()
	}
	if who.ConsumerID == "" {
		return nil, errNoPlan
	}
	c := m.consumer(who)
	now := m.options.Now()
	known := m.ensureFresh(ctx, c, now)
	taken, err := c.begin(use, dims, now, known)
	if err != nil {
		return nil, err
	}
	if !known {
		m.unknown.Inc()
	}
	return func(counts bool, status string) { c.end(m, taken, counts, status) }, nil
}

// errNoPlan is never changed.
var errNoPlan = problem.New(problem.NoSubscription, "The consumer has no plan.")

func (m *Meters) consumer(who *apikey.Principal) *consumer {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.consumers[who.ConsumerID]
	if c == nil {
		c = &consumer{id: who.ConsumerID, bucket: who.BucketID, inFlight: map[event]metering.Count{}, reading: make(chan struct{}, 1)}
		m.consumers[who.ConsumerID] = c
		m.sweep()
	}
	return c
}

// sweep forgets consumers that have not called for long. m.mu is held.
func (m *Meters) sweep() {
	now := m.options.Now()
	if now.Sub(m.sweptAt) < forgetAfter {
		return
	}
	m.sweptAt = now
	for id, c := range m.consumers {
		if c.idle(now) {
			delete(m.consumers, id)
		}
	}
}

// ensureFresh makes sure that the knowledge about a consumer is not stale; false: it can't be read now.
func (m *Meters) ensureFresh(ctx context.Context, c *consumer, now time.Time) bool {
	age, ended := c.age(now)
	switch {
	case age < refreshAfter && !ended:
		return !c.failed.Load()
	case age < staleAfter && !ended:
		select {
		case c.reading <- struct{}{}:
			go func() {
				defer func() { <-c.reading }()
				m.refresh(context.WithoutCancel(ctx), c)
			}()
		default: // another goroutine reads it
		}
		return !c.failed.Load()
	}
	select {
	case c.reading <- struct{}{}:
	case <-ctx.Done():
		return false
	}
	defer func() { <-c.reading }()
	if age, ended := c.age(m.options.Now()); age < refreshAfter && !ended {
		return !c.failed.Load() // another goroutine has read it in the meantime
	}
	m.refresh(context.WithoutCancel(ctx), c)
	return !c.failed.Load()
}

// refresh reads the plan and the usage of a consumer. When that fails, the old knowledge stays.
func (m *Meters) refresh(ctx context.Context, c *consumer) {
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	began := m.options.Now()
	read, err := m.read(ctx, c, began)
	if err != nil {
		if m.failing.CompareAndSwap(false, true) {
			m.options.Logger.WarnContext(ctx, "the usage of consumers can't be read; the last known one counts", "error", err)
		}
		c.failed.Store(true)
		c.noteFailure(began)
		return
	}
	m.failing.Store(false)
	c.failed.Store(false)
	c.apply(read, began)
}

// consumerState is what the database knows about a consumer.
type consumerState struct {
	entitlements *metering.Entitlements // nil: the consumer has no plan
	allowances   []allowance
	batch        int64
	closed       closedHours
}

// closedHours are sums of hours that no longer change, by features.
type closedHours struct {
	before time.Time // the first hour that is not included
	plan   string
	sums   map[string]closedSum
}

type closedSum struct {
	start time.Time
	used  int64
}

func (m *Meters) read(ctx context.Context, c *consumer, now time.Time) (*consumerState, error) {
	found, err := m.options.Store.Entitlements(ctx, []string{c.id})
	if err != nil {
		return nil, fmt.Errorf("read plan: %w", err)
	}
	r := &consumerState{entitlements: found[c.id]}
	if r.entitlements == nil {
		return r, nil
	}
	r.closed = closedHours{now.UTC().Truncate(time.Hour).Add(-time.Hour), r.entitlements.Plan.ID, map[string]closedSum{}}
	hours, err := m.options.Store.HoursOf(ctx, m.options.Counts.Writer(), []string{c.id}, r.closed.before, time.Time{})
	if err != nil {
		return nil, fmt.Errorf("read usage: %w", err)
	}
	r.batch = hours.Batch
	before := c.closedSums()
	for _, g := range r.entitlements.Grants(now) {
		a := allowance{Grant: g}
		if g.Meter != nil {
			a.start, a.end = g.Period.Period(r.entitlements.Anchor, now)
			sum, ok := before.sum(&r.closed, g.FeatureKey, a.start)
			if !ok && a.start.Before(r.closed.before) {
				if sum, err = m.options.Store.Used(ctx, c.id, &g, a.start, r.closed.before); err != nil {
					return nil, fmt.Errorf("read usage: %w", err)
				}
			}
			r.closed.sums[g.FeatureKey] = closedSum{a.start, sum}
			a.base = sum
			for key, n := range hours.Counts {
				a.base += a.value(event{key.EventType, key.Dims}, key.Start(), n)
			}
		}
		r.allowances = append(r.allowances, a)
	}
	return r, nil
}

// sum returns a sum if it is still of the same hours.
func (c closedHours) sum(now *closedHours, feature string, start time.Time) (int64, bool) {
	known, ok := c.sums[feature]
	if !ok || c.plan != now.plan || !c.before.Equal(now.before) || !known.start.Equal(start) {
		return 0, false
	}
	return known.used, true
}
