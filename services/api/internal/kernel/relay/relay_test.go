package relay_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"waybill.dev/services/api/internal/kernel/loss"
	"waybill.dev/services/api/internal/kernel/relay"
	"waybill.dev/shared/bus"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/pipeline"
	"waybill.dev/shared/store/rollup"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The tests here are about moments, which real parts don't let one choose; the service's
// own tests run the relay on real ones.

type lease struct{ lost chan struct{} }

func (l lease) Lost() <-chan struct{} { return l.lost }
func (lease) Release()                {}

// database is what the relay sees of the store.
type database struct {
	mu       sync.Mutex
	down     bool
	lease    lease
	leads    int
	outbox   []pipeline.OutboxEvent // Event.ReceivedAt is the effective time, too
	requests map[string]domain.Task
	relayed  map[string]time.Time     // requests
	jobs     map[string][]domain.Task // pages of one delivery each
	broken   map[string]bool          // jobs whose pages fail
	restore  []pipeline.RestoreItem
	streams  map[string]domain.StreamMark
	kept     int // calls of Maintain

	deltas    int64     // that are not merged
	countedAt time.Time // the oldest of them
	merges    int
}

func (d *database) locked() (unlock func(), err error) {
	d.mu.Lock()
	if d.down {
		d.mu.Unlock()
		return nil, fmt.Errorf("ask: %w", domain.ErrUnavailable)
	}
	return d.mu.Unlock, nil
}

func (d *database) Lead(context.Context) (store.Lease, bool, error) {
	unlock, err := d.locked()
	if err != nil {
		return nil, false, err
	}
	defer unlock()
	d.leads++
	return d.lease, true, nil
}

func (d *database) Unsettled(_ context.Context, before time.Time, after pipeline.OutboxCursor, limit int) ([]pipeline.OutboxEvent, pipeline.OutboxCursor, error) {
	unlock, err := d.locked()
	if err != nil {
		return nil, after, err
	}
	defer unlock()
	var page []pipeline.OutboxEvent
	for _, row := range d.outbox {
		if row.Event.ReceivedAt.Before(before) && row.Event.ID > after.ID && len(page) < limit {
			page = append(page, row)
			after = pipeline.OutboxCursor{ReceivedAt: row.Event.ReceivedAt, ID: row.Event.ID}
		}
	}
	return page, after, nil
}

func (d *database) Unpublished(_ context.Context, limit int) ([]pipeline.OutboxEvent, error) {
	unlock, err := d.locked()
	if err != nil {
		return nil, err
	}
	defer unlock()
	var page []pipeline.OutboxEvent
	for _, row := range d.outbox {
		if row.Relayed < 0 && len(page) < limit {
			page = append(page, row)
		}
	}
	return page, nil
}

func (d *database) MarkRelayed(_ context.Context, keys []domain.EventKey, at time.Time) error {
	unlock, err := d.locked()
	if err != nil {
		return err
	}
	defer unlock()
	for i := range d.outbox {
		if slices.Contains(keys, d.outbox[i].Event.Key()) {
			d.outbox[i].Event.ReceivedAt, d.outbox[i].Relayed = at, d.outbox[i].Relayed+1
		}
	}
	return nil
}

func (d *database) OpenRequests(_ context.Context, before time.Time, after string, limit int) ([]domain.Task, error) {
	unlock, err := d.locked()
	if err != nil {
		return nil, err
	}
	defer unlock()
	var tasks []domain.Task
	for _, id := range slices.Sorted(maps.Keys(d.requests)) {
		at, relayed := d.relayed[id]
		if id > after && len(tasks) < limit && (!relayed || at.Before(before)) {
			tasks = append(tasks, d.requests[id])
		}
	}
	return tasks, nil
}

func (d *database) SendingJobs(context.Context) ([]string, error) {
	unlock, err := d.locked()
	if err != nil {
		return nil, err
	}
	defer unlock()
	var ids []string
	for _, id := range slices.Sorted(maps.Keys(d.jobs)) {
		if len(d.jobs[id]) > 0 || d.broken[id] {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

func (d *database) AdvanceJob(_ context.Context, id string) (int, bool, error) {
	unlock, err := d.locked()
	if err != nil {
		return 0, false, err
	}
	defer unlock()
	if d.broken[id] {
		return 0, false, errBroken
	}
	task := d.jobs[id][0]
	d.jobs[id], d.requests[task.Request] = d.jobs[id][1:], task
	return 1, len(d.jobs[id]) > 0, nil
}

var errBroken = errors.New("broken")

func (d *database) MarkRequestsRelayed(_ context.Context, ids []string, at time.Time) error {
	unlock, err := d.locked()
	if err != nil {
		return err
	}
	defer unlock()
	for _, id := range ids {
		d.relayed[id] = at
	}
	return nil
}

func (d *database) Restorable(_ context.Context, since time.Time, after domain.DeliveryID, limit int) (page []pipeline.RestoreItem, next domain.DeliveryID, err error) {
	unlock, err := d.locked()
	if err != nil {
		return nil, "", err
	}
	defer unlock()
	for _, item := range d.restore {
		if item.Task.Delivery > after && !item.UpdatedAt.Before(since) && len(page) < limit {
			page = append(page, item)
		}
	}
	if len(page) == limit {
		next = page[limit-1].Task.Delivery
	}
	return page, next, nil
}

func (d *database) BusStreams(context.Context) (map[string]domain.StreamMark, error) {
	unlock, err := d.locked()
	if err != nil {
		return nil, err
	}
	defer unlock()
	return maps.Clone(d.streams), nil
}

func (d *database) MarkBusStreams(_ context.Context, marks map[string]domain.StreamMark) error {
	unlock, err := d.locked()
	if err != nil {
		return err
	}
	defer unlock()
	maps.Copy(d.streams, marks)
	return nil
}

func (d *database) Maintain(context.Context, time.Time, time.Duration) (pipeline.MaintainResult, error) {
	unlock, err := d.locked()
	if err != nil {
		return pipeline.MaintainResult{}, err
	}
	defer unlock()
	d.kept++
	return pipeline.MaintainResult{}, nil
}

func (d *database) Backlog(context.Context) (rollup.Backlog, error) {
	unlock, err := d.locked()
	if err != nil {
		return rollup.Backlog{}, err
	}
	defer unlock()
	return rollup.Backlog{Deltas: d.deltas, Oldest: d.countedAt}, nil
}

func (d *database) Merge(context.Context) (int, bool, error) {
	unlock, err := d.locked()
	if err != nil {
		return 0, false, err
	}
	defer unlock()
	d.merges++
	d.deltas--
	if d.deltas == 0 {
		d.countedAt = time.Time{}
	}
	return 1, d.deltas > 0, nil
}

func (d *database) CountExpiring(context.Context, time.Time) ([]domain.ExpiryCount, error) {
	return nil, nil
}

func (d *database) CountExpiringKeys(context.Context, time.Time) (domain.ExpiryCount, error) {
	return domain.ExpiryCount{Kind: domain.ExpiryAPIKey}, nil
}

func (d *database) CountExpiringCertificates(context.Context, time.Time) (domain.ExpiryCount, error) {
	return domain.ExpiryCount{Kind: domain.ExpiryDomainCertificate}, nil
}

func (d *database) CountExpiringClientCAs(context.Context, time.Time) (domain.ExpiryCount, error) {
	return domain.ExpiryCount{Kind: domain.ExpiryClientCA}, nil
}

func (d *database) CountExpiringDomains(context.Context) (domain.ExpiryCount, error) {
	return domain.ExpiryCount{Kind: domain.ExpiryCustomDomain}, nil
}

func (d *database) ResumeQuotas(context.Context, time.Time) (int, error) { return 0, nil }

func (d *database) OldestUnsettled(context.Context) (time.Time, bool, error) {
	unlock, err := d.locked()
	if err != nil {
		return time.Time{}, false, err
	}
	defer unlock()
	var oldest time.Time
	for _, row := range d.outbox {
		if oldest.IsZero() || row.Event.ReceivedAt.Before(oldest) {
			oldest = row.Event.ReceivedAt
		}
	}
	return oldest, !oldest.IsZero(), nil
}

// transport is what the relay sees of the bus.
type transport struct {
	mu        sync.Mutex
	down      bool
	created   map[string]time.Time
	last      uint64 // sequence of every stream
	server    string
	backlog   relay.Backlog
	ensured   int
	sent      []string
	refuse    map[string]bool // ids that are not taken
	listening func(body []byte)
	reconnect chan struct{}
}

// states is what Streams answers; b.mu is held, or nobody else is there yet.
func (b *transport) states() map[string]loss.State {
	states := make(map[string]loss.State, len(b.created))
	for name, at := range b.created {
		states[name] = loss.State{StreamMark: domain.StreamMark{Created: at, LastSeq: b.last, Server: b.server, SeenAt: time.Now()}}
	}
	return states
}

// created returns when the streams on record were made.
func (d *database) created() map[string]time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	created := make(map[string]time.Time, len(d.streams))
	for name, mark := range d.streams {
		created[name] = mark.Created
	}
	return created
}

func newTransport() *transport {
	b := &transport{reconnect: make(chan struct{}, 1), refuse: map[string]bool{}}
	b.remake(bus.StreamEvents, bus.StreamRetries, bus.StreamHold, bus.StreamOrder, bus.StreamRecords)
	return b
}

func (b *transport) remake(streams ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.created = maps.Clone(b.created)
	if b.created == nil {
		b.created = map[string]time.Time{}
	}
	for _, name := range streams {
		b.created[name] = time.Now()
	}
}

func (b *transport) Ready() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.down {
		return domain.ErrUnavailable
	}
	return nil
}

func (b *transport) Reconnects() (<-chan struct{}, func()) { return b.reconnect, func() {} }

func (b *transport) Ensure(context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ensured++
	return nil
}

func (b *transport) Streams(context.Context) (map[string]loss.State, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.states(), nil
}

func (b *transport) Backlog(context.Context) (relay.Backlog, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.backlog, nil
}

func (b *transport) take(id, text string, done func(error)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.refuse[id] {
		go done(domain.ErrUnavailable)
		return
	}
	b.sent = append(b.sent, text)
	go done(nil)
}

func (b *transport) PublishEvent(a bus.AcceptedEvent, round int, done func(bool, error)) {
	text := fmt.Sprintf("event %s round %d", a.Event.ID, round)
	if a.Place > 0 {
		text += fmt.Sprintf(" place %d", a.Place)
	}
	b.take(a.Event.ID, text, func(err error) { done(false, err) })
}

func (b *transport) Schedule(task *domain.Task, at time.Time, done func(error)) {
	b.take(string(task.Delivery), fmt.Sprintf("schedule %s in %s", task.Delivery, time.Until(at)), done)
}

func (b *transport) Hold(task *domain.Task, done func(error)) {
	b.take(string(task.Delivery), "hold "+string(task.Delivery), done)
}

func (b *transport) RestoreOrdered(task *domain.Task, place bus.OrderPosition, done func(error)) {
	text := fmt.Sprintf("order %s %d of %d", task.Delivery, place.Sequence, place.ShipmentKey)
	if !place.Due.IsZero() {
		text += fmt.Sprintf(" in %s", time.Until(place.Due))
	}
	b.take(string(task.Delivery), text, done)
}

func (b *transport) Announce(string, []byte) {}

func (b *transport) AnnounceRestored(account string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sent = append(b.sent, "announce "+account)
}

func (b *transport) Listen(_ string, handle func([]byte)) (func(), error) {
	b.listening = handle
	return func() {}, nil
}

// drain returns what was sent since the last call, sorted.
func (b *transport) drain() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	sent := b.sent
	b.sent = nil
	slices.Sort(sent)
	return sent
}

type bench struct {
	db   *database
	bus  *transport
	logs strings.Builder
}

// newBench returns parts that have met before: the streams are on record.
func newBench() *bench {
	b := &bench{bus: newTransport()}
	b.db = &database{
		lease: lease{make(chan struct{})}, requests: map[string]domain.Task{}, relayed: map[string]time.Time{},
		streams: map[string]domain.StreamMark{}, jobs: map[string][]domain.Task{}, broken: map[string]bool{},
	}
	for name, state := range b.bus.states() {
		b.db.streams[name] = state.StreamMark
	}
	return b
}

// run runs a relay in the bubble of the test and returns what stops it.
func (b *bench) run(t *testing.T) (r *relay.Relay, stop func()) {
	t.Helper()
	r = relay.New(relay.Options{
		Store: b.db, Bus: b.bus, Logger: slog.New(slog.NewTextHandler(&b.logs, nil)),
		Registerer: prometheus.NewRegistry(), Retention: time.Hour,
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	synctest.Wait()
	return r, func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	}
}

func pass(d time.Duration) {
	<-time.After(d) // the bubble's clock
	synctest.Wait()
}

func (b *bench) wantSent(t *testing.T, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, b.bus.drain()); diff != "" {
		t.Errorf("sent (-want +got):\n%s", diff)
	}
}

func accepted(id string, ago time.Duration, relayed int) pipeline.OutboxEvent {
	return pipeline.OutboxEvent{Event: domain.Event{Account: "default", ID: id, ReceivedAt: time.Now().Add(-ago)}, Version: 1, Relayed: relayed}
}

// Only what was acknowledged, by a margin, and whose outcomes are written counts as lost.
func TestRepublishesWhatTheBusCanNotHold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		b.db.outbox = []pipeline.OutboxEvent{accepted("a", time.Minute, 0), accepted("b", 30*time.Second, 2), accepted("c", 5*time.Second, 0)}
		b.bus.backlog.OldestEvent = time.Now().Add(-45 * time.Second)
		_, stop := b.run(t)
		defer stop()
		b.wantSent(t) // what was acknowledged a moment ago is not known yet
		pass(7 * time.Second)
		b.wantSent(t, "event a round 1")
		b.bus.mu.Lock() // all is acknowledged, but its outcomes are on their way
		b.bus.backlog = relay.Backlog{OldestRecord: time.Now().Add(-time.Second)}
		b.bus.mu.Unlock()
		pass(time.Minute)
		b.wantSent(t)
		b.bus.mu.Lock()
		b.bus.backlog = relay.Backlog{}
		b.bus.mu.Unlock()
		pass(time.Second)
		b.wantSent(t, "event a round 2", "event b round 3", "event c round 1")
		pass(5 * time.Second)
		b.wantSent(t)
	})
}

// What a page's publication did not reach comes again, under the same round.
// TestAlertsGoOutAtOnce has events wait on the bus, which keeps what is only lost from going out.
func TestAlertsGoOutAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		b.bus.backlog.OldestEvent = time.Now().Add(-time.Hour)
		r, stop := b.run(t)
		defer stop()
		b.db.mu.Lock()
		for i := range 600 {
			b.db.outbox = append(b.db.outbox, accepted(fmt.Sprintf("a%03d", i), time.Second, -1))
		}
		b.db.mu.Unlock()
		r.Poke()
		synctest.Wait()
		if sent := b.bus.drain(); len(sent) != 600 || sent[0] != "event a000 round 0" {
			t.Errorf("%d were sent: %v", len(sent), sent[:min(len(sent), 2)])
		}
		r.Poke()
		synctest.Wait()
		b.wantSent(t)
	})
}

func TestPartOfAPageFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		b.db.outbox = []pipeline.OutboxEvent{accepted("a", time.Minute, 0), accepted("b", time.Minute, 0)}
		b.bus.refuse["b"] = true
		_, stop := b.run(t)
		defer stop()
		pass(7 * time.Second)
		b.wantSent(t, "event a round 1")
		b.bus.mu.Lock()
		b.bus.refuse = nil
		b.bus.mu.Unlock()
		pass(3 * time.Second)
		b.wantSent(t, "event b round 1")
	})
}

func TestRequestsGoOutOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		r, stop := b.run(t)
		defer stop()
		ask := func(id string) {
			b.db.mu.Lock()
			defer b.db.mu.Unlock()
			b.db.requests[id] = domain.Task{Delivery: domain.DeliveryID("d" + id), Request: id}
		}
		ask("1")
		r.Poke()
		synctest.Wait()
		b.wantSent(t, "schedule d1 in 0s")
		ask("2")
		pass(5 * time.Second) // found without a poke
		b.wantSent(t, "schedule d2 in 0s")
		pass(time.Minute)
		b.wantSent(t)
	})
}

// The pages of a job go out at once, and neither a job that is broken nor the database being
// away for a while keeps them.
func TestJobsAreWorkedOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		_, stop := b.run(t)
		defer stop()
		ask := func(name string) (want []string) {
			b.db.mu.Lock()
			defer b.db.mu.Unlock()
			for i := range 5 {
				for _, job := range []string{"b", "c"} {
					id := fmt.Sprint(name, job, i)
					b.db.jobs[job] = append(b.db.jobs[job], domain.Task{Delivery: domain.DeliveryID(id), Request: id})
					want = append(want, "schedule "+id+" in 0s")
				}
			}
			slices.Sort(want)
			return want
		}
		b.db.mu.Lock()
		b.db.jobs["a"], b.db.broken["a"] = nil, true
		b.db.mu.Unlock()
		want := ask("first")
		pass(10 * time.Second)
		b.wantSent(t, want...)
		if !strings.Contains(b.logs.String(), "job a: broken") {
			t.Errorf("nothing is said of the broken job: %s", b.logs.String())
		}
		b.db.mu.Lock()
		b.db.down = true
		b.db.mu.Unlock()
		want = ask("second")
		pass(time.Minute)
		b.wantSent(t)
		b.db.mu.Lock()
		b.db.down = false
		b.db.mu.Unlock()
		pass(10 * time.Second)
		b.wantSent(t, want...)
	})
}

func TestMorePagesThanOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		const n = 1000
		for i := range n {
			id := fmt.Sprintf("%05d", i)
			b.db.outbox = append(b.db.outbox, accepted(id, time.Minute, 0))
			b.db.requests[id] = domain.Task{Delivery: domain.DeliveryID("d" + id), Request: id}
		}
		_, stop := b.run(t)
		defer stop()
		pass(7 * time.Second)
		if sent := b.bus.drain(); len(sent) != 2*n {
			t.Errorf("%d were sent, want %d", len(sent), 2*n)
		}
	})
}

// A new installation has no streams on record: nothing was lost.
func TestFirstStart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		b.db.streams = map[string]domain.StreamMark{}
		b.db.outbox = []pipeline.OutboxEvent{accepted("a", time.Second, 0)}
		b.db.restore = []pipeline.RestoreItem{{Task: domain.Task{Delivery: "d"}, Status: domain.StatusRetrying}}
		_, stop := b.run(t)
		defer stop()
		b.wantSent(t)
		if diff := cmp.Diff(b.bus.created, b.db.created()); diff != "" {
			t.Errorf("streams on record (-want +got):\n%s", diff)
		}
	})
}

// What lost streams held comes back: at once what the database knows, and after a while
// what was still on its way to it. Only then the new streams are put on record.
func TestLossOfTheBus(t *testing.T) {
	t.Parallel()
	all := []string{bus.StreamEvents, bus.StreamRetries, bus.StreamHold, bus.StreamRecords}
	schedules := []string{"schedule late in 0s", "schedule soon in 1h0m0s"}
	holds := []string{"hold inactive", "hold waiting"}
	for name, tc := range map[string]struct {
		lost  []string
		first []string
	}{
		"everything":  {all, slices.Concat([]string{"event e round 1"}, holds, []string{"schedule asked in 0s"}, schedules)},
		"retries":     {[]string{bus.StreamRetries}, slices.Concat([]string{"schedule asked in 0s"}, schedules)},
		"hold queues": {[]string{bus.StreamHold}, slices.Concat(holds, []string{"schedule asked in 0s"})},
		"records":     {[]string{bus.StreamRecords}, slices.Concat(holds, []string{"schedule asked in 0s"}, schedules)},
		"events":      {[]string{bus.StreamEvents}, []string{"event e round 1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBench()
				pass(time.Minute)
				b.db.outbox = []pipeline.OutboxEvent{accepted("e", time.Second, 0)}
				b.db.requests["r"] = domain.Task{Delivery: "asked", Request: "r"}
				b.db.relayed["r"] = time.Now().Add(-time.Second)
				b.db.restore = []pipeline.RestoreItem{
					{Task: domain.Task{Delivery: "inactive"}, Status: domain.StatusHeld},
					{Task: domain.Task{Delivery: "late"}, Status: domain.StatusRetrying, NextAttemptAt: time.Now().Add(-time.Hour)},
					{Task: domain.Task{Delivery: "soon"}, Status: domain.StatusRetrying, NextAttemptAt: time.Now().Add(time.Hour)},
					{Task: domain.Task{Delivery: "waiting"}, Status: domain.StatusPending, InLane: true},
				}
				b.bus.backlog.OldestEvent = time.Now().Add(-time.Hour) // nothing is relayed in the ordinary way
				old := b.db.created()
				b.bus.remake(tc.lost...)
				_, stop := b.run(t)
				defer stop()
				b.wantSent(t, tc.first...)
				pass(8 * time.Second)
				b.wantSent(t)
				if diff := cmp.Diff(old, b.db.created()); diff != "" {
					t.Errorf("streams were put on record too early:\n%s", diff)
				}
				// An outcome from before the loss reaches the database late.
				b.db.mu.Lock()
				b.db.restore = append(b.db.restore, pipeline.RestoreItem{
					Task: domain.Task{Delivery: "zlate"}, Status: domain.StatusRetrying, NextAttemptAt: time.Now().Add(time.Hour + 4*time.Second),
				})
				b.db.mu.Unlock()
				pass(4 * time.Second)
				if slices.Contains(tc.first, schedules[0]) {
					b.wantSent(t, "schedule zlate in 1h0m2s")
				} else {
					b.wantSent(t)
				}
				if diff := cmp.Diff(b.bus.created, b.db.created()); diff != "" {
					t.Errorf("streams on record (-want +got):\n%s", diff)
				}
				pass(time.Minute)
				b.wantSent(t)
			})
		})
	}
}

// A server that comes back with its streams, but without what they held, is found by how
// far they are: a power cut leaves that behind.
func TestStreamsThatAreBehindTheirMark(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		pass(time.Minute)
		b.bus.last, b.bus.server = 40, "a"
		for name, state := range b.bus.states() {
			b.db.streams[name] = state.StreamMark
		}
		b.db.restore = []pipeline.RestoreItem{
			{Task: domain.Task{Delivery: "inactive"}, Status: domain.StatusHeld},
			{Task: domain.Task{Delivery: "soon"}, Status: domain.StatusRetrying, NextAttemptAt: time.Now().Add(time.Hour)},
		}
		b.bus.last, b.bus.server = 3, "b"
		_, stop := b.run(t)
		defer stop()
		b.wantSent(t, "hold inactive", "schedule soon in 1h0m0s")
		pass(time.Minute)
		b.wantSent(t)
		if mark := b.db.streams[bus.StreamHold]; mark.LastSeq != 3 || mark.Server != "b" {
			t.Errorf("the streams are on record as %+v", mark)
		}
	})
}

// After a mere restart of the server only what was stored last is brought back, once the
// records are written: it may have missed the disk.
func TestRestartOfTheBus(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		pass(time.Minute)
		b.bus.last, b.bus.server = 40, "a"
		for name, state := range b.bus.states() {
			b.db.streams[name] = state.StreamMark
		}
		now := time.Now()
		// No event has come for two hours: that stream's mark is as old, and says nothing of
		// what the others may miss.
		idle := b.db.streams[bus.StreamEvents]
		idle.SeenAt = now.Add(-2 * time.Hour)
		b.db.streams[bus.StreamEvents] = idle
		b.db.restore = []pipeline.RestoreItem{
			{Task: domain.Task{Delivery: "long held"}, Status: domain.StatusHeld, UpdatedAt: now.Add(-time.Hour)},
			{Task: domain.Task{Delivery: "soon"}, Status: domain.StatusRetrying, NextAttemptAt: now.Add(time.Hour + 11*time.Second), UpdatedAt: now.Add(-time.Second)},
			{Task: domain.Task{Delivery: "held since"}, Status: domain.StatusHeld, UpdatedAt: now.Add(5 * time.Second)},
		}
		b.bus.last, b.bus.server = 41, "b"
		_, stop := b.run(t)
		defer stop()
		b.wantSent(t)
		pass(11 * time.Second)
		if len(b.bus.sent) != 1 || !strings.HasPrefix(b.bus.sent[0], "schedule soon in 1h") {
			t.Errorf("sent %q, want the schedule alone: the others were stored long before, or on the restarted server", b.bus.sent)
		}
		b.bus.sent = nil
		pass(time.Minute)
		b.wantSent(t)
		if mark := b.db.streams[bus.StreamRetries]; mark.Server != "b" || mark.LastSeq != 41 {
			t.Errorf("the streams are on record as %+v", mark)
		}
	})
}

// The second pass waits until the outcomes from before the loss are written.
func TestRestorationWaitsForRecords(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		pass(time.Minute)
		b.bus.remake(bus.StreamRetries)
		b.bus.backlog.OldestRecord = time.Now().Add(-time.Second)
		_, stop := b.run(t)
		defer stop()
		pass(time.Minute)
		if b.db.created()[bus.StreamRetries].Equal(b.bus.created[bus.StreamRetries]) {
			t.Error("the stream was put on record while outcomes were still to be written")
		}
		b.bus.mu.Lock()
		b.bus.backlog = relay.Backlog{}
		b.bus.mu.Unlock()
		pass(2 * time.Second)
		if !b.db.created()[bus.StreamRetries].Equal(b.bus.created[bus.StreamRetries]) {
			t.Error("the stream was never put on record")
		}
	})
}

// What was given back in the first pass may have been behind RECORDS: its later state is
// given back in the second, unless it was reached on the new streams.
func TestRestorationBringsTheLaterState(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		pass(time.Minute)
		held := func(id domain.DeliveryID) pipeline.RestoreItem {
			return pipeline.RestoreItem{Task: domain.Task{Delivery: id, Rev: 2}, Status: domain.StatusHeld, UpdatedAt: time.Now()}
		}
		b.db.restore = []pipeline.RestoreItem{held("a"), held("b"), held("c")}
		b.bus.remake(bus.StreamRetries, bus.StreamHold)
		b.bus.backlog.OldestRecord = time.Now().Add(-time.Second)
		_, stop := b.run(t)
		defer stop()
		b.wantSent(t, "hold a", "hold b", "hold c")
		retrying := func(id domain.DeliveryID, at time.Time) pipeline.RestoreItem {
			return pipeline.RestoreItem{
				Task: domain.Task{Delivery: id, Rev: 4}, Status: domain.StatusRetrying,
				NextAttemptAt: time.Now().Add(time.Hour), UpdatedAt: at,
			}
		}
		b.db.mu.Lock()
		b.db.restore[1] = retrying("b", time.Now().Add(-time.Second))
		b.db.restore[2] = retrying("c", time.Now().Add(time.Minute))
		b.db.mu.Unlock()
		pass(20 * time.Second)
		b.bus.mu.Lock()
		b.bus.backlog = relay.Backlog{}
		b.bus.mu.Unlock()
		pass(3 * time.Second)
		if sent := b.bus.drain(); len(sent) != 1 || !strings.HasPrefix(sent[0], "schedule b in 59m") {
			t.Errorf("the second pass gave back %q, want the schedule of b alone", sent)
		}
	})
}

// A restoration that fails half-way goes on where it was.
func TestRestorationGoesOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		pass(time.Minute)
		b.db.restore = []pipeline.RestoreItem{
			{Task: domain.Task{Delivery: "a"}, Status: domain.StatusHeld},
			{Task: domain.Task{Delivery: "b"}, Status: domain.StatusHeld},
		}
		b.bus.remake(bus.StreamHold)
		b.bus.refuse["b"] = true
		_, stop := b.run(t)
		defer stop()
		b.wantSent(t, "hold a")
		b.bus.mu.Lock()
		b.bus.refuse = nil
		b.bus.mu.Unlock()
		pass(3 * time.Second)
		b.wantSent(t, "hold b")
		pass(time.Minute)
		b.wantSent(t)
	})
}

// Outages are told once, at their begin and at their end, and end by themselves.
func TestOutages(t *testing.T) {
	t.Parallel()
	for name, set := range map[string]func(b *bench, down bool){
		"database": func(b *bench, down bool) { b.db.mu.Lock(); b.db.down = down; b.db.mu.Unlock() },
		"bus":      func(b *bench, down bool) { b.bus.mu.Lock(); b.bus.down = down; b.bus.mu.Unlock() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBench()
				_, stop := b.run(t)
				defer stop()
				set(b, true)
				pass(time.Minute)
				b.db.mu.Lock()
				b.db.outbox = []pipeline.OutboxEvent{accepted("a", time.Minute, 0)}
				b.db.mu.Unlock()
				pass(time.Minute)
				b.wantSent(t)
				set(b, false)
				pass(12 * time.Second)
				b.wantSent(t, "event a round 1")
				logs := b.logs.String()
				const what = ` what="the relay makes no progress"`
				if strings.Count(logs, `msg="the relay has trouble"`+what) != 1 || strings.Count(logs, `msg="the relay works again"`+what) != 1 {
					t.Errorf("logged:\n%s", logs)
				}
			})
		})
	}
}

// A leader whose lease is lost stops, and asks again.
func TestLeaseIsLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		_, stop := b.run(t)
		defer stop()
		lost := b.db.lease.lost
		b.db.mu.Lock()
		b.db.lease = lease{make(chan struct{})}
		b.db.mu.Unlock()
		close(lost)
		pass(5 * time.Second)
		b.db.mu.Lock()
		defer b.db.mu.Unlock()
		if b.db.leads != 2 || b.db.kept != 2 {
			t.Errorf("it led %d times and kept the retention %d times, want 2 and 2", b.db.leads, b.db.kept)
		}
	})
}

// The streams are made at the start and after every reconnection, before anything else.
func TestStreamsAfterReconnection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		_, stop := b.run(t)
		defer stop()
		b.bus.reconnect <- struct{}{}
		synctest.Wait()
		b.bus.mu.Lock()
		ensured := b.bus.ensured
		b.bus.mu.Unlock()
		if ensured != 2 {
			t.Errorf("the streams were made %d times, want 2", ensured)
		}
		pass(2*time.Hour + time.Minute)
		b.db.mu.Lock()
		defer b.db.mu.Unlock()
		if b.db.kept != 3 {
			t.Errorf("the retention was kept %d times in two hours, want 3", b.db.kept)
		}
	})
}

// Counts are merged a minute after they were made, all of them, or when they are very many.
func TestCountsAreMerged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		b.db.deltas, b.db.countedAt = 3, time.Now()
		_, stop := b.run(t)
		defer stop()
		merges := func() int {
			b.db.mu.Lock()
			defer b.db.mu.Unlock()
			return b.db.merges
		}
		pass(50 * time.Second)
		if n := merges(); n != 0 {
			t.Errorf("%d merges of counts of the last minute", n)
		}
		pass(15 * time.Second)
		if n := merges(); n != 3 {
			t.Errorf("%d merges, want as many as there is something to merge: 3", n)
		}
		b.db.mu.Lock()
		b.db.deltas, b.db.countedAt, b.db.merges = 30_000, time.Now(), 0
		b.db.mu.Unlock()
		pass(6 * time.Second)
		if n := merges(); n != 30_000 {
			t.Errorf("%d merges of very many counts", n)
		}
	})
}
