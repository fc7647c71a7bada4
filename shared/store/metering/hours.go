package metering

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"gorm.io/gorm"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
)

// Dims are what events are grouped by, in addition to their consumer, type and hour. Deliveries have none.
type Dims struct{ Deployment, Route, Method, Status string }

// Matches reports whether events with these dims match filters by dims.
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

// HourKey is the key by which events are counted.
type HourKey struct {
	Bucket, Consumer string // their ids
	EventType        string
	Hour             int64 // in hours of Unix time
	Dims
}

// Start returns when the hour begins.
func (k *HourKey) Start() time.Time { return time.Unix(k.Hour*3600, 0).UTC() }

// HourOf returns the hour of a time, in hours of Unix time.
func HourOf(at time.Time) int64 { return at.Unix() / 3600 }

// Count has the counts of events with the same key.
type Count struct {
	Events int64
	Total  int64 // the sum of their totals
}

// Value returns the value that a meter computes from a count.
func (c Count) Value(a domain.Aggregation) int64 {
	if a == domain.AggregationSum {
		return c.Total
	}
	return c.Events
}

// sortedKeys returns keys in the order that all writers use, so that two writers
// of the same rows don't deadlock.
func sortedKeys(counts map[HourKey]Count) []HourKey {
	return slices.SortedFunc(maps.Keys(counts), func(a, b HourKey) int {
		return cmp.Or(cmp.Compare(a.Consumer, b.Consumer), cmp.Compare(a.EventType, b.EventType), cmp.Compare(a.Hour, b.Hour),
			cmp.Compare(a.Deployment, b.Deployment), cmp.Compare(a.Route, b.Route), cmp.Compare(a.Method, b.Method), cmp.Compare(a.Status, b.Status))
	})
}

// Add adds counts in a transaction.
func Add(ctx context.Context, c store.Conn, counts map[HourKey]Count) error {
	values := make([]any, 0, 10*len(counts))
	for _, k := range sortedKeys(counts) {
		n := counts[k]
		values = append(values, k.Bucket, k.Consumer, k.EventType, c.Moment(k.Start()), k.Deployment, k.Route, k.Method, k.Status, n.Events, n.Total)
	}
	err := c.Batch(ctx, c.Rows(store.MultiRow{
		Head: "INSERT INTO meter_hours AS h (bucket_id, consumer_id, event_type, hour, deployment, route, method, status, count, sum) ",
		Tail: ` ON CONFLICT (consumer_id, event_type, hour, deployment, route, method, status)
			DO UPDATE SET count = h.count + excluded.count, sum = h.sum + excluded.sum`,
		Types: "text,text,text,timestamptz,text,text,text,text,bigint,bigint",
	}, values, nil)...)
	if err != nil {
		return fmt.Errorf("add counts of meters: %w", err)
	}
	return nil
}

// Hours has the counts of consumers from an hour on.
type Hours struct {
	// Batch is the last batch of a writer that is included in the counts.
	Batch  int64
	Counts map[HourKey]Count
}

// HoursOf returns the counts of consumers from an hour on and before another one (zero: without
// end), with the last batch of a writer that they include.
func (m *Metering) HoursOf(ctx context.Context, writer string, consumers []string, from, before time.Time) (Hours, error) {
	h := Hours{Counts: map[HourKey]Count{}}
	err := m.db.Snapshot(ctx, func(tx *gorm.DB) error {
		clear(h.Counts)
		c := m.db.Beneath(tx)
		err := c.Query(ctx, "SELECT batch FROM gateway_writers WHERE writer = $1", func(scan store.Scan) error { return scan(&h.Batch) }, writer)
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

func (h *Hours) read(ctx context.Context, c store.Conn, consumers []string, from, before time.Time) error {
	query := "SELECT bucket_id, consumer_id, event_type, hour, deployment, route, method, status, count, sum FROM meter_hours WHERE consumer_id " + c.In() + " AND hour >= $2"
	values := []any{c.List(consumers), c.Moment(from)}
	if !before.IsZero() {
		query += " AND hour < $3"
		values = append(values, c.Moment(before))
	}
	return c.Query(ctx, query, func(scan store.Scan) error {
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
	used, err := ReadUsed(ctx, m.db.Conn(), consumer, g, start, end)
	return used, store.Wrap("read usage", err)
}
