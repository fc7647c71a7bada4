// Package observe counts the requests of deployments, and keeps a log of some of them.
//
// In the path of a request there is one lock, one look-up in a map, and a decision whether the log keeps the request. Every 500 ms a writer
// writes the gathered counts and rows in one transaction, with a number by which the database recognises a repeated batch.
//
// Counts are exact: they wait in memory while the database is away. The log keeps a limited number of requests a second. Up to half of them
// are failed requests; the others are a random sample. Each deployment has the same share of both, and other deployments may use what it
// leaves unused. Requests that the log does not keep are counted as not kept.
package observe

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"waybill.dev/services/gateway/internal/route"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/store/metering"
	"waybill.dev/shared/store/traffic"
)

// Store stores counts and kept requests.
type Store interface {
	Write(ctx context.Context, b *traffic.Batch) error
	Maintain(ctx context.Context, retention time.Duration) error
}

// Bounds of what is in memory.
const (
	maxKeys = 100_000 // number of counts; beyond it, consumers are counted together
	maxLost = 2 * maxKeys
	maxRows = 16_384 // number of rows of the log
)

const (
	writeEvery    = 500 * time.Millisecond
	writeTime     = 10 * time.Second // for one batch
	lastWriteTime = 3 * time.Second  // at the end of the process
	maintainEvery = time.Minute
	maxPath       = 2048 // bytes that are kept
	maxHost       = 256
	maxMethod     = 64
)

// DefaultRetention is how long the log is kept by default.
const DefaultRetention = 24 * time.Hour

// Options of a recorder; Store and Logger are required.
type Options struct {
	Store Store
	// Rate is how many requests a second are kept in the log.
	Rate float64
	// Retention is how long the log is kept; 0: DefaultRetention.
	Retention  time.Duration
	Logger     *slog.Logger
	Registerer prometheus.Registerer // nil: none
}

// Recorder counts and keeps the requests of one process.
type Recorder struct {
	options Options
	writer  string // names this run of the process
	metrics *metrics

	mu   sync.Mutex
	next *trafficCounts
	// room is how many requests more may be kept, at the rate, until the next take.
	room          int
	failed, other samples
	number        int64 // number of the last batch

	oldest time.Time // when the oldest call of pending arrived; zero: nothing is pending

	// Only the writer uses the fields below.
	credit  float64   // number of requests that may be kept
	closed  time.Time // when samples were last taken
	rows    []traffic.Request
	pending *traffic.Batch // that is being written; nil: none
}

// trafficCounts are counts since a time.
type trafficCounts struct {
	calls  map[traffic.CallKey]*traffic.Calls
	meters map[metering.HourKey]metering.Count
	since  time.Time // when the first call arrived; zero: there was none
}

// keptRequest is a request for the log.
type keptRequest struct {
	deployment, build, consumer string
	record                      *route.Record
	noted                       route.RequestNotes
}

// New returns a recorder. Nothing is written before Run.
func New(o Options) *Recorder {
	if o.Retention <= 0 {
		o.Retention = DefaultRetention
	}
	r := &Recorder{options: o, writer: domain.RandomText(20), closed: time.Now(), credit: o.Rate}
	r.metrics = newMetrics(o.Registerer, r.lag)
	r.next = &trafficCounts{calls: map[traffic.CallKey]*traffic.Calls{}}
	r.room = int(r.credit)
	return r
}

// Of returns the function that records the requests of a deployment that a build answers; nil: the recorder is nil.
func (r *Recorder) Of(deployment, build string) func(*route.Record) {
	if r == nil {
		return nil
	}
	return func(record *route.Record) { r.add(deployment, build, record) }
}

// add counts a request, and keeps it if the sample includes it.
func (r *Recorder) add(deployment, build string, record *route.Record) {
	noted := record.Notes()
	one := keptRequest{deployment, build, consumerOf(noted), record, noted}
	key := traffic.CallKey{Deployment: deployment, Consumer: one.consumer, Minute: record.At.Unix() / 60, Status: record.Status}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.next.since.IsZero() {
		r.next.since = record.At
	}
	calls := r.callsOf(key)
	if calls == nil {
		r.metrics.requestsUncounted.Inc()
		return
	}
	calls.Calls++
	calls.Micros += record.Took.Microseconds()
	if noted.Severity == domain.SeverityError {
		r.failed.add(one, r.room)
	} else {
		r.other.add(one, r.room)
	}
}

// Writer names this run of the process in the database.
func (r *Recorder) Writer() string { return r.writer }

// Meter adds to the usage of a consumer, and returns the number of the batch that writes it. When there are too many keys, all counts of
// one consumer, type and hour share one key.
func (r *Recorder) Meter(key metering.HourKey, n metering.Count) (batch int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.next.since.IsZero() {
		r.next.since = time.Now()
	}
	if r.next.meters == nil {
		r.next.meters = make(map[metering.HourKey]metering.Count)
	}
	if _, known := r.next.meters[key]; !known && len(r.next.meters) >= maxKeys {
		key.Dims = metering.Dims{}
		if _, known := r.next.meters[key]; !known && len(r.next.meters) >= maxLost {
			r.metrics.requestsUncounted.Inc()
			return r.number + 1
		}
	}
	sum := r.next.meters[key]
	sum.Events += n.Events
	sum.Total += n.Total
	r.next.meters[key] = sum
	return r.number + 1
}

// callsOf returns the counts of a key, or the counts that consumers share when there are too many keys. It returns nil when there is no
// room for these either.
func (r *Recorder) callsOf(key traffic.CallKey) *traffic.Calls {
	if calls := r.next.calls[key]; calls != nil {
		return calls
	}
	if len(r.next.calls) >= maxKeys {
		key.Consumer = domain.ConsumerOther
		if calls := r.next.calls[key]; calls != nil || len(r.next.calls) >= maxLost {
			return calls
		}
	}
	calls := &traffic.Calls{}
	r.next.calls[key] = calls
	return calls
}

// consumerOf returns the caller's name in statistics.
func consumerOf(n route.RequestNotes) string {
	switch p := n.Principal; {
	case p == nil && n.Subject != "":
		return domain.ConsumerOfCertificate(n.Subject)
	case p == nil:
		return domain.ConsumerAnonymous
	case p.Consumer != "":
		return p.Consumer
	default:
		return p.ID
	}
}

// samples are the samples of all deployments. Each deployment has the same share, so that one with many requests
// leaves the others theirs.
type samples map[string]*sample

// The number of requests of each deployment is known only at the take. Until then all deployments together hold some held times as many
// requests as may be kept, and each deployment at least leastHeld.
const (
	held      = 16
	leastHeld = 4
)

// add keeps a request if the sample of its deployment includes it, within the deployment's share of room.
func (s *samples) add(one keptRequest, room int) {
	if *s == nil {
		*s = make(samples)
	}
	own := (*s)[one.deployment]
	if own == nil {
		own = &sample{}
		(*s)[one.deployment] = own
	}
	own.add(one, min(room, max(held*room/len(*s), leastHeld)))
}

// size returns how many requests are held.
func (s *samples) size() (n int) {
	for _, own := range *s {
		n += len(own.kept)
	}
	return n
}

// takeShared empties the samples and returns n requests of them. Other deployments get what a deployment leaves of its share.
func (s *samples) takeShared(n int) (list []keptRequest) {
	all := slices.Collect(maps.Values(*s))
	//nolint:gosec // which ones are kept is no secret
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	slices.SortStableFunc(all, func(a, b *sample) int { return len(a.kept) - len(b.kept) })
	for i, own := range all {
		share := (n + len(all) - i - 1) / (len(all) - i)
		taken := own.take(share)
		n -= len(taken)
		list = append(list, taken...)
	}
	*s = nil
	return list
}

// sample is a random part of the requests of a time: each request has the same chance to be in it.
type sample struct {
	seen int
	kept []keptRequest
}

// add adds a request to the sample. If the sample is full with room requests, the request may replace another one.
func (s *sample) add(one keptRequest, room int) {
	s.seen++
	if len(s.kept) < room {
		s.kept = append(s.kept, one)
		return
	}
	if room == 0 {
		return
	}
	if i := rand.IntN(s.seen); i < room { //nolint:gosec // a sample is no secret
		s.kept[i] = one
	}
}

// take empties the sample and returns n requests of it.
func (s *sample) take(n int) []keptRequest {
	list := s.kept
	s.seen, s.kept = 0, nil
	if n < len(list) {
		//nolint:gosec // which ones are kept is no secret
		rand.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		list = list[:n]
	}
	return list
}

// takeKept ends the time of the samples and returns the requests to keep. r.mu is held.
func (r *Recorder) takeKept(now time.Time) []keptRequest {
	failed := min(r.failed.size(), max(r.room/2, r.room-r.other.size()))
	list := append(r.failed.takeShared(failed), r.other.takeShared(r.room-failed)...)
	r.credit = min(r.credit-float64(len(list))+now.Sub(r.closed).Seconds()*r.options.Rate, r.options.Rate)
	r.closed, r.room = now, int(max(r.credit, 0))
	return list
}

// lag returns how long the oldest unwritten call has been waiting.
func (r *Recorder) lag() float64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	oldest := r.oldest
	if oldest.IsZero() {
		oldest = r.next.since
	}
	if oldest.IsZero() {
		return 0
	}
	return time.Since(oldest).Seconds()
}

// Run writes the gathered counts and rows until ctx ends, and then once more.
func (r *Recorder) Run(ctx context.Context) error {
	var tidying sync.WaitGroup
	defer tidying.Wait()
	tidying.Go(func() { r.maintain(ctx) })
	ticks := time.NewTicker(writeEvery)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			r.writeLast(context.WithoutCancel(ctx))
			return nil
		case <-ticks.C:
			r.write(ctx)
		}
	}
}

func (r *Recorder) writeLast(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, lastWriteTime)
	defer cancel()
	if r.write(ctx) {
		r.write(ctx) // calls that arrived while a batch was pending
	}
}

// maintain deletes old rows from the store, until ctx ends.
func (r *Recorder) maintain(ctx context.Context) {
	ticks := time.NewTicker(maintainEvery)
	defer ticks.Stop()
	for {
		if err := r.options.Store.Maintain(ctx, r.options.Retention); err != nil {
			r.log(ctx, "the log of requests can't be tidied up now", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
	}
}

// log logs a failure, unless the end of the process is its cause: then there is one more try.
func (r *Recorder) log(ctx context.Context, message string, err error) {
	if errors.Is(ctx.Err(), context.Canceled) {
		return
	}
	level := slog.LevelError
	if errors.Is(err, domain.ErrUnavailable) {
		level = slog.LevelWarn
	}
	r.options.Logger.Log(ctx, level, message, "error", err) //nolint:sloglint // the callers have constants
}

// write writes the pending batch, or else what has gathered; false: it could not.
func (r *Recorder) write(ctx context.Context) bool {
	r.mu.Lock()
	list := r.takeKept(time.Now())
	var calls map[traffic.CallKey]*traffic.Calls
	var meters map[metering.HourKey]metering.Count
	number := r.number
	if r.pending == nil && len(r.next.calls)+len(r.next.meters) > 0 {
		r.number++
		number = r.number
		calls, meters, r.oldest = r.next.calls, r.next.meters, r.next.since
		r.next = &trafficCounts{calls: make(map[traffic.CallKey]*traffic.Calls, len(calls))}
	}
	r.mu.Unlock()
	for i := range list {
		if len(r.rows) == maxRows {
			r.metrics.rowsDropped.Add(float64(len(list) - i))
			break
		}
		r.rows = append(r.rows, list[i].request())
	}
	if calls != nil {
		r.pending = newBatch(r.writer, number, calls, r.rows)
		r.pending.Meters = meters
		r.rows = nil
	}
	if r.pending == nil {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, writeTime)
	defer cancel()
	if err := r.options.Store.Write(ctx, r.pending); err != nil {
		r.failedToWrite(ctx, err)
		return false
	}
	r.metrics.countWritten(r.pending)
	r.pending = nil
	r.mu.Lock()
	r.oldest = time.Time{}
	r.mu.Unlock()
	return true
}

// failedToWrite keeps the pending batch for the next try. If the failure is not that the database is away, the rows of the batch are
// dropped: nothing must keep counts from being written.
func (r *Recorder) failedToWrite(ctx context.Context, err error) {
	r.metrics.writeFailures.Inc()
	r.log(ctx, "counts of requests can't be written now, and are kept in memory", err)
	if errors.Is(err, domain.ErrUnavailable) || len(r.pending.Rows) == 0 || ctx.Err() != nil {
		return
	}
	r.metrics.rowsDropped.Add(float64(len(r.pending.Rows)))
	meters := r.pending.Meters
	r.pending = newBatch(r.writer, r.pending.Number, r.pending.Calls, nil)
	r.pending.Meters = meters
}
