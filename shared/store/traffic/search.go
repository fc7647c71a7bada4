package traffic

import (
	"context"
	"database/sql"
	"math"
	"time"

	"gorm.io/gorm"

	"waybill.dev/shared/store"
)

const (
	// searchSpan is how much of the log a search reads at a time: it checks every row there that
	// the other filters leave.
	searchSpan = time.Hour
	// searchTime is how long a search takes. It ends after the step in which that time is over.
	searchTime = 700 * time.Millisecond
)

// search returns the requests that query finds, at most one more than the limit. It reads one span of
// the log after the other, from the newest on. If its time is over, end is the place where the next
// search goes on; empty: it reached the end, or has found enough.
func (t *Traffic) search(ctx context.Context, query *gorm.DB, f RequestFilter, from *store.Cursor) (list []Request, end string, err error) {
	first, last, err := t.bounds(ctx, f, from)
	if err != nil {
		return nil, "", err
	}
	// Each span begins a new query from the common part.
	query = query.Session(&gorm.Session{})
	for began := time.Now(); !last.Before(first); {
		since := last.Add(-searchSpan)
		found, err := findRequests(query.Where("at > ? AND at <= ?", store.InstantOf(since), store.InstantOf(last)), f.Limit+1-len(list), "search requests")
		if err != nil {
			return nil, "", err
		}
		list, last = append(list, found...), since
		switch {
		case len(list) > f.Limit:
			return list, "", nil
		case time.Since(began) >= t.searchTime && !last.Before(first):
			return list, cursorPlace(last, math.MaxInt64), nil
		}
	}
	return list, "", nil
}

// bounds returns the times between which a search reads, both inclusive; if last is before first,
// there is nothing to read.
func (t *Traffic) bounds(ctx context.Context, f RequestFilter, from *store.Cursor) (first, last time.Time, err error) {
	var oldest, newest sql.Null[store.Instant]
	// Each subquery reads one row of the primary key; in one query, they would read the whole log.
	row := t.db.Reading(ctx).Raw("SELECT (SELECT min(at) FROM gateway_requests WHERE deployment = ?), (SELECT max(at) FROM gateway_requests WHERE deployment = ?)",
		f.Deployment, f.Deployment).Row()
	if err := row.Scan(&oldest, &newest); err != nil {
		return first, last, store.Wrap("find the bounds of a log", err)
	}
	if !oldest.Valid || !newest.Valid {
		return time.Unix(1, 0), time.Unix(0, 0), nil
	}
	first, last = oldest.V.Time(), newest.V.Time()
	for _, since := range []time.Time{f.Since, f.NotBefore} {
		if since.After(first) {
			first = since
		}
	}
	if !f.Until.IsZero() && f.Until.Before(last) {
		last = f.Until
	}
	if from != nil {
		if at, _, _ := placeOf(*from); at.Time().Before(last) {
			last = at.Time()
		}
	}
	return first, last, nil
}
