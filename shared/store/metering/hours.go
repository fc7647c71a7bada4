package metering

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"gorm.io/gorm"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
)

// Dims are what events are told apart by, besides their consumer, type and hour. Those of
// deliveries have none.
type Dims struct{ Deployment, Route, Method, Status string }

// Matches tells whether events with these dims pass filters by dims.
func (d *Dims) Matches(filters map[string]string) bool {
	for dim, value := range filters {
		if d.value(dim) != value {
			return false
		}
	}
	return true
}

func (d *Dims) value(dim string) string {
	switch dimColumn(dim) {
	case "deployment":
		return d.Deployment
	case "route":
		return d.Route
	case "method":
		return d.Method
	default:
		return d.Status
	}
}

// HourKey is what events are counted by.
type HourKey struct {
	Bucket, Consumer string // their ids
	EventType        string
	Hour             int64 // of Unix time
	Dims
}

// Start returns when the hour begins.
func (k *HourKey) Start() time.Time { return time.Unix(k.Hour*3600, 0).UTC() }

// HourOf returns the hour that a time is in, in hours of Unix time.
func HourOf(at time.Time) int64 { return at.Unix() / 3600 }

// Count is what is counted of events.
type Count struct {
	Events int64
	Total  int64 // the sum of their totals
}

// Value returns what a meter makes of a count.
func (c Count) Value(a domain.Aggregation) int64 {
	if a == domain.AggregationSum {
		return c.Total
	}
	return c.Events
}

// hoursAtOnce is how many rows one statement writes.
const hoursAtOnce = 500

// sorted returns keys in an order that all writers keep: two that grow the same rows wait for each
// other only one way.
func sorted(counts map[HourKey]Count) []HourKey {
	return slices.SortedFunc(maps.Keys(counts), func(a, b HourKey) int {
		return cmp.Or(cmp.Compare(a.Consumer, b.Consumer), cmp.Compare(a.EventType, b.EventType), cmp.Compare(a.Hour, b.Hour),
			cmp.Compare(a.Deployment, b.Deployment), cmp.Compare(a.Route, b.Route), cmp.Compare(a.Method, b.Method), cmp.Compare(a.Status, b.Status))
	})
}

// Add adds counts in a transaction of gorm's.
func Add(ctx context.Context, db *store.Store, tx *gorm.DB, counts map[HourKey]Count) error {
	return AddTo(ctx, raw{db, store.RawConn(tx)}, counts)
}

// AddTo adds counts in a transaction.
func AddTo(ctx context.Context, c Conn, counts map[HourKey]Count) error {
	const columns = 10
	for part := range slices.Chunk(sorted(counts), hoursAtOnce) {
		var query strings.Builder
		query.WriteString("INSERT INTO meter_hours AS h (bucket_id, consumer_id, event_type, hour, deployment, route, method, status, count, sum) VALUES ")
		values := make([]any, 0, columns*len(part))
		for i, k := range part {
			if i > 0 {
				query.WriteString(", ")
			}
			query.WriteString("(" + marks(1+columns*i, columns) + ")")
			n := counts[k]
			values = append(values, k.Bucket, k.Consumer, k.EventType, c.Moment(k.Start()), k.Deployment, k.Route, k.Method, k.Status, n.Events, n.Total)
		}
		query.WriteString(` ON CONFLICT (consumer_id, event_type, hour, deployment, route, method, status)
			DO UPDATE SET count = h.count + excluded.count, sum = h.sum + excluded.sum`)
		if err := c.Exec(ctx, query.String(), values...); err != nil {
			return fmt.Errorf("add counts of meters: %w", err)
		}
	}
	return nil
}

// Hours are counts of consumers from an hour on.
type Hours struct {
	// Batch is the last batch of a writer that is in the counts.
	Batch  int64
	Counts map[HourKey]Count
}

// HoursOf returns the counts of consumers from an hour on, and before another one (zero: all that
// follow), with the last batch of a writer that they have.
func (m *Metering) HoursOf(ctx context.Context, writer string, consumers []string, from, before time.Time) (Hours, error) {
	h := Hours{Counts: map[HourKey]Count{}}
	err := m.db.Snapshot(ctx, func(tx *gorm.DB) error {
		clear(h.Counts)
		c := raw{m.db, store.RawConn(tx)}
		err := c.Query(ctx, "SELECT batch FROM gateway_writers WHERE writer = $1", func(scan func(...any) error) error { return scan(&h.Batch) }, writer)
		if err != nil {
			return err
		}
		for part := range slices.Chunk(consumers, entitledAtOnce) {
			if err := h.read(ctx, c, part, from, before); err != nil {
				return err
			}
		}
		return nil
	})
	return h, store.Wrap("read counts of meters", err)
}

func (h *Hours) read(ctx context.Context, c Conn, consumers []string, from, before time.Time) error {
	n := len(consumers)
	query := "SELECT bucket_id, consumer_id, event_type, hour, deployment, route, method, status, count, sum FROM meter_hours WHERE consumer_id IN (" +
		marks(1, n) + ") AND hour >= " + marks(n+1, 1)
	values := args(consumers, c.Moment(from))
	if !before.IsZero() {
		query += " AND hour < " + marks(n+2, 1)
		values = append(values, c.Moment(before))
	}
	return c.Query(ctx, query, func(scan func(...any) error) error {
		var k HourKey
		var hour store.Instant
		var n Count
		err := scan(&k.Bucket, &k.Consumer, &k.EventType, &hour, &k.Deployment, &k.Route, &k.Method, &k.Status, &n.Events, &n.Total)
		k.Hour = HourOf(hour.Time())
		h.Counts[k] = n
		return err
	}, values...)
}

// Used returns how much a consumer has used of a grant from start on and before end.
func (m *Metering) Used(ctx context.Context, consumer string, g *domain.Grant, start, end time.Time) (int64, error) {
	_, reading := m.db.Handles()
	used, err := ReadUsed(ctx, raw{m.db, reading}, consumer, g, start, end)
	return used, store.Wrap("read usage", err)
}
