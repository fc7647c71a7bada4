package metering

import (
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

// Window is the length of the parts into which a query divides its time.
type Window string

// All windows.
const (
	WindowHour  Window = "HOUR"
	WindowDay   Window = "DAY"
	WindowMonth Window = "MONTH"
)

// Windows returns all windows.
func Windows() []Window { return []Window{WindowHour, WindowDay, WindowMonth} }

// start returns the start of the window that contains an hour, in UTC, and of the next window.
func (w Window) start(hour time.Time) (start, end time.Time) {
	year, month, day := hour.Date()
	switch w {
	case WindowDay:
		start = time.Date(year, month, day, 0, 0, 0, 0, time.UTC)
		return start, start.AddDate(0, 0, 1)
	case WindowMonth:
		start = time.Date(year, month, 1, 0, 0, 0, 0, time.UTC)
		return start, start.AddDate(0, 1, 0)
	default:
		return hour, hour.Add(time.Hour)
	}
}

// Groups of queries in addition to those of meters.
const (
	GroupSubject  = "subject"     // the name of the consumer
	GroupCustomer = "customer_id" // the id of the consumer
)

// MeterQuery asks for the counts of a meter.
type MeterQuery struct {
	From, To  time.Time // full hours; zero: from the first, or to the last
	Window    Window    // empty: one window for the whole time
	Subjects  []string  // names of consumers; empty: all
	Customers []string  // ids of consumers; empty: all
	// Filters are, for groups of the meter, the values that match.
	Filters map[string][]string
	Groups  []string
}

// MeterValue is one value of an answer.
type MeterValue struct {
	Start, End time.Time // zero: the query has no window and no bound
	Subject    *string   // nil: of all consumers together
	Customer   *string
	Groups     map[string]string
	Value      int64
}

// MaxMeterValues bounds the values of an answer.
const MaxMeterValues = 10_000

// ErrQueryGroup is returned when a query names a group that the meter does not have.
var ErrQueryGroup = fmt.Errorf("group of a query: %w", ErrGroup)

// QueryMeter returns the values of a meter, the earliest first. ErrQueryGroup: the query has a
// group that the meter does not have. domain.ErrLimit: there are more than MaxMeterValues.
func (m *Metering) QueryMeter(ctx context.Context, bucket domain.BucketKey, idOrSlug string, q MeterQuery) ([]MeterValue, error) {
	var list []MeterValue
	err := m.db.Snapshot(ctx, func(tx *gorm.DB) error {
		row, err := m.takeMeter(tx, bucket, idOrSlug, store.LockNone)
		if err != nil {
			return err
		}
		meter, err := row.domain(bucket)
		if err != nil {
			return err
		}
		list, err = m.query(ctx, tx, row.BucketID, &meter, &q)
		return err
	})
	return list, store.Wrap("query meter", err)
}

// where returns the condition of a query on the counts of a bucket, h, and their consumers, k.
func (q *MeterQuery) where(tx *gorm.DB, bucket string, meter *domain.Meter) (*gorm.DB, error) {
	query := tx.Table("meter_hours AS h").Joins("LEFT JOIN key_consumers k ON k.id = h.consumer_id").
		Where("h.bucket_id = ? AND h.event_type = ?", bucket, meter.EventType)
	from := q.From
	if meter.EventFrom.After(from) {
		from = meter.EventFrom
	}
	if !from.IsZero() {
		query = query.Where("h.hour >= ?", store.InstantOf(from))
	}
	if !q.To.IsZero() {
		query = query.Where("h.hour < ?", store.InstantOf(q.To))
	}
	if len(q.Subjects) > 0 {
		query = query.Where("coalesce(k.name, h.consumer_id) IN ?", q.Subjects)
	}
	if len(q.Customers) > 0 {
		query = query.Where("h.consumer_id IN ?", q.Customers)
	}
	for _, group := range slices.Sorted(maps.Keys(q.Filters)) {
		dim := meter.GroupBy[group]
		if dim == "" {
			return nil, ErrQueryGroup
		}
		query = query.Where("h."+dimColumn(dim)+" IN ?", q.Filters[group])
	}
	return query, nil
}

// query groups by the hour in SQL, and by the window in Go, so that both databases have the same
// days and months.
func (m *Metering) query(ctx context.Context, tx *gorm.DB, bucket string, meter *domain.Meter, q *MeterQuery) ([]MeterValue, error) {
	query, err := q.where(tx.WithContext(ctx), bucket, meter)
	if err != nil {
		return nil, err
	}
	columns := []string{}
	if q.Window != "" {
		columns = append(columns, "h.hour")
	}
	for _, group := range q.Groups {
		switch {
		case group == GroupSubject:
			columns = append(columns, "coalesce(k.name, h.consumer_id)")
		case group == GroupCustomer:
			columns = append(columns, "h.consumer_id")
		case meter.GroupBy[group] != "":
			columns = append(columns, "h."+dimColumn(meter.GroupBy[group]))
		default:
			return nil, ErrQueryGroup
		}
	}
	chosen := append(slices.Clone(columns), "CAST(coalesce(sum(h."+valueColumn(meter)+"), 0) AS bigint)")
	query = query.Select(strings.Join(chosen, ", "))
	if len(columns) > 0 {
		query = query.Group(strings.Join(columns, ", ")).Order(strings.Join(columns, ", "))
	}
	rows, err := query.Rows()
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	sums := &windowSums{query: q, at: map[string]int{}}
	for rows.Next() {
		if err := sums.add(rows.Scan); err != nil {
			return nil, err
		}
	}
	return sums.list, rows.Err()
}

// windowSums adds up the rows of hours by windows and groups.
type windowSums struct {
	query *MeterQuery
	list  []MeterValue
	at    map[string]int // indexes of list
}

func (s *windowSums) add(scan func(...any) error) error {
	var hour store.Instant
	var into []any
	if s.query.Window != "" {
		into = append(into, &hour)
	}
	texts := make([]string, len(s.query.Groups))
	for i := range texts {
		into = append(into, &texts[i])
	}
	v := MeterValue{Start: s.query.From, End: s.query.To}
	if err := scan(append(into, &v.Value)...); err != nil {
		return err
	}
	if s.query.Window != "" {
		v.Start, v.End = s.query.Window.start(hour.Time())
	}
	for i, group := range s.query.Groups {
		switch group {
		case GroupSubject:
			v.Subject = &texts[i]
		case GroupCustomer:
			v.Customer = &texts[i]
		default:
			if v.Groups == nil {
				v.Groups = make(map[string]string)
			}
			v.Groups[group] = texts[i]
		}
	}
	key := v.Start.String() + "\x00" + strings.Join(texts, "\x00")
	if at, there := s.at[key]; there {
		s.list[at].Value += v.Value
		return nil
	}
	if len(s.list) == MaxMeterValues {
		return domain.ErrLimit
	}
	s.at[key] = len(s.list)
	s.list = append(s.list, v)
	return nil
}

// MeterValues returns the values that a group of a meter has had, in their order. ErrQueryGroup:
// the meter has no such group. domain.ErrLimit: there are more than MaxMeterValues.
func (m *Metering) MeterValues(ctx context.Context, bucket domain.BucketKey, idOrSlug, group string, from, to time.Time) ([]string, error) {
	values := []string{}
	err := m.db.Snapshot(ctx, func(tx *gorm.DB) error {
		row, err := m.takeMeter(tx, bucket, idOrSlug, store.LockNone)
		if err != nil {
			return err
		}
		meter, err := row.domain(bucket)
		if err != nil {
			return err
		}
		dim := meter.GroupBy[group]
		if dim == "" {
			return ErrQueryGroup
		}
		query, err := (&MeterQuery{From: from, To: to}).where(tx, row.BucketID, &meter)
		if err != nil {
			return err
		}
		column := "h." + dimColumn(dim)
		err = query.Distinct(column).Order(column).Limit(MaxMeterValues+1).Pluck(column, &values).Error
		if err == nil && len(values) > MaxMeterValues {
			return domain.ErrLimit
		}
		return err
	})
	return values, store.Wrap("read values of meter", err)
}
