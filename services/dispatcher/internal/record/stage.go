package record

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"waybill.dev/services/dispatcher/internal/admission"
	"waybill.dev/shared/again"
	"waybill.dev/shared/bus"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/store/recorder"
)

// Source has the batches that are on the bus.
type Source interface {
	admission.Bus
	RejectOwn(m *bus.Message, cause error, done func(error))
	// Server returns the id of the connected server, which changes with each start of the server.
	Server() string
}

// Writer writes batches to the database, all of them or none. Writing a batch again changes nothing.
type Writer interface {
	Record(ctx context.Context, batches []domain.RecordBatch) (recorder.RecordResult, error)
}

// RowsPostgres and RowsSQLite are how many outcomes, events and changes of health are enough for one transaction. On
// SQLite a transaction keeps all other writers waiting, also those that accept events: 40 rows take 1.5 to 3 ms of
// processor time. While webhooks fail, twice as many rows come in gatherFor, and acceptances took that much longer at p99.
const (
	RowsPostgres = 1000
	RowsSQLite   = 40
)

const (
	// gatherFor and gatherMax bound what is written in one transaction: the longest wait for more
	// messages, and the most messages.
	gatherFor = 40 * time.Millisecond
	gatherMax = 64
	// Once records wait for lateAfter, a transaction may have lateRows, so that the log catches up:
	// each transaction has its own flush to the disk.
	lateAfter = 250 * time.Millisecond
	lateRows  = 200
	writeTime = 20 * time.Second
	// lookInterval is the time between two checks for settlements that may be written now.
	lookInterval = 500 * time.Millisecond
)

// Stage writes the records that are on the bus to the database.
type Stage struct {
	source   Source
	writer   Writer
	rows     int
	inFlight *admission.Messages
	order    *Order
	log      *slog.Logger
	metrics  *stageMetrics

	mu     sync.Mutex
	yields bool
	turned chan struct{} // closed and replaced whenever yields changes
}

// NewStage returns a record stage that writes about rows outcomes at a time. The messages that it
// works on take room; nil: there is no bound.
func NewStage(source Source, writer Writer, rows int, room *admission.Budget, registerer prometheus.Registerer, log *slog.Logger) *Stage {
	return &Stage{
		source: source, writer: writer, rows: rows, inFlight: admission.NewRecords(room), order: NewOrder(writtenRecords{source}), log: log,
		metrics: newStageMetrics(registerer), turned: make(chan struct{}),
	}
}

// Yield makes this process leave the records to processes that can read more versions, or ends that.
func (s *Stage) Yield(yield bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.yields != yield {
		s.yields = yield
		close(s.turned)
		s.turned = make(chan struct{})
	}
}

func (s *Stage) yieldState() (yields bool, turned <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.yields, s.turned
}

// Run writes until ctx is done. Messages that were taken and not written by then come again.
func (s *Stage) Run(ctx context.Context) error {
	messages := make(chan *bus.Message, gatherMax)
	written := make(chan struct{})
	go func() {
		defer close(written)
		s.write(ctx, messages)
	}()
	attending, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	go func() { _ = s.inFlight.Run(attending) }()
	for ctx.Err() == nil {
		s.consume(ctx, messages)
	}
	close(messages)
	<-written
	return nil
}

// consume takes records until another process's turn begins, or waits for this process's turn.
func (s *Stage) consume(ctx context.Context, messages chan<- *bus.Message) {
	yields, turned := s.yieldState()
	if yields {
		select {
		case <-turned:
		case <-ctx.Done():
		}
		return
	}
	consuming, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		select {
		case <-turned:
			stop()
		case <-consuming.Done():
		}
	}()
	admission.Records(consuming, s.source, s.log, s.inFlight, func(m *bus.Message) {
		select {
		case messages <- m:
		case <-consuming.Done():
			s.inFlight.Done(m)
			m.Release()
		}
	})
}

func (s *Stage) write(ctx context.Context, messages <-chan *bus.Message) {
	look := time.NewTicker(lookInterval)
	defer look.Stop()
	for {
		var taken []*bus.Message
		var batches []domain.RecordBatch
		select {
		case first, ok := <-messages:
			if !ok {
				return
			}
			taken, batches = s.gather(first, messages)
		case now := <-look.C:
			if keys := s.order.Ripe(ctx, now); len(keys) > 0 {
				batches = []domain.RecordBatch{{Settled: keys}}
			}
		}
		if len(batches) == 0 {
			continue
		}
		for i, whole := range s.order.After(ctx, positions(taken)) {
			if !whole && len(batches[i].Settled) > 0 {
				s.order.Keep(taken[i].Position(), batches[i].Settled)
				batches[i].Settled = nil
			}
		}
		stored := s.store(ctx, taken, batches)
		for _, m := range taken {
			if stored {
				m.Ack()
			} else {
				m.Release()
			}
			s.inFlight.Done(m)
		}
	}
}

func positions(messages []*bus.Message) []bus.Position {
	list := make([]bus.Position, len(messages))
	for i, m := range messages {
		list[i] = m.Position()
	}
	return list
}

// writtenRecords tells how far the records are written, and on which server.
type writtenRecords struct{ Source }

// Written implements Records.
func (w writtenRecords) Written(ctx context.Context) (uint64, error) {
	state, err := w.Stream(bus.StreamRecords).ConsumerState(ctx, bus.ConsumerRecord)
	return state.Acknowledged, err
}

// gather takes messages: the first one and those that come within gatherFor, up to the bounds. It
// returns none when none of them can be read.
func (s *Stage) gather(first *bus.Message, messages <-chan *bus.Message) ([]*bus.Message, []domain.RecordBatch) {
	var taken []*bus.Message
	var batches []domain.RecordBatch
	deadline := time.NewTimer(gatherFor)
	defer deadline.Stop()
	rows, enough := 0, s.rows
	if time.Since(first.Time) > lateAfter {
		enough = max(enough, lateRows)
	}
	for next := first; ; {
		if batch, err := Parse(next.Body()); err != nil {
			s.unreadable(next, err)
		} else {
			taken, batches = append(taken, next), append(batches, batch)
			rows += len(batch.Outcomes) + len(batch.Events) + len(batch.Health)
		}
		if len(taken) >= gatherMax || rows >= enough {
			return taken, batches
		}
		var ok bool
		select {
		case next, ok = <-messages:
			if !ok {
				return taken, batches
			}
		case <-deadline.C:
			return taken, batches
		}
	}
}

// unreadable leaves a batch of another version to a process that knows that version. A message that no
// process can read, or that is no batch, is rejected, so that it does not hold up the messages behind it.
func (s *Stage) unreadable(m *bus.Message, cause error) {
	if errors.Is(cause, bus.ErrVersion) && m.Leave() {
		s.inFlight.Done(m)
		return
	}
	s.log.Error("records can't be read and are rejected", "sequence", m.Sequence, "error", cause)
	s.metrics.unreadable.Inc()
	s.source.RejectOwn(m, cause, func(err error) {
		s.inFlight.Done(m)
		if err == nil { // on an error the message comes again
			m.Ack()
		}
	})
}

// store writes until it succeeds; false: ctx was done first.
func (s *Stage) store(ctx context.Context, taken []*bus.Message, batches []domain.RecordBatch) bool {
	return again.Do(ctx, again.Loop{
		First: 100 * time.Millisecond, Longest: 2 * time.Second, Log: s.log,
		Fails: "records can't be written to the database; they wait on the bus", Works: "records can be written to the database again",
	}, func(func()) error {
		// Not ctx: a write that has begun when the process is told to stop is finished.
		writing, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTime)
		defer cancel()
		start := time.Now()
		result, err := s.writer.Record(writing, batches)
		if err != nil {
			s.metrics.failures.Inc()
		} else if len(taken) > 0 {
			s.metrics.observe(result, time.Since(start), taken[0].Time)
		}
		return err //nolint:wrapcheck // says what was being done
	}) == nil
}

type stageMetrics struct {
	written    prometheus.Counter
	outdated   prometheus.Counter
	unreadable prometheus.Counter
	failures   prometheus.Counter
	lag        prometheus.Gauge
	duration   prometheus.Histogram
}

func newStageMetrics(registerer prometheus.Registerer) *stageMetrics {
	m := &stageMetrics{
		written: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "waybill_records_attempts_total", Help: "Attempts written to the delivery log."}),
		outdated: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "waybill_records_outdated_total", Help: "Records left out because their day is past the retention."}),
		unreadable: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "waybill_records_unreadable_total", Help: "Record batches rejected because they could not be decoded."}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "waybill_records_failures_total", Help: "Writes of records that failed and were repeated."}),
		lag: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "waybill_records_lag_seconds", Help: "Age of the oldest record in the last batch when it was written."}),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "waybill_records_write_seconds", Help: "Duration of one write of records.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 14)}),
	}
	registerer.MustRegister(m.written, m.outdated, m.unreadable, m.failures, m.lag, m.duration)
	return m
}

func (m *stageMetrics) observe(result recorder.RecordResult, took time.Duration, oldest time.Time) {
	m.written.Add(float64(result.Attempts))
	m.outdated.Add(float64(result.Outdated))
	m.lag.Set(time.Since(oldest).Seconds())
	m.duration.Observe(took.Seconds())
}
