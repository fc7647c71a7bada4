package traffic

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"gorm.io/gorm"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
)

// Step is the length of time that the counts of an answer cover.
type Step int

// All steps.
const (
	Minute1 Step = stepMinute
	Hour1   Step = stepHour
	Day1    Step = stepDay
)

// Count is how often a consumer got a status in a step.
type Count struct {
	Start    time.Time
	Consumer string
	Status   int
	Calls
}

// CallCounts returns the counts of a deployment in the steps from the one of since on, the oldest
// first. If consumers is not empty, only these count. domain.ErrLimit: there are more than most rows.
func (t *Traffic) CallCounts(ctx context.Context, deployment string, step Step, since time.Time, consumers []string, most int) ([]Count, error) {
	length := int64(step) * 60
	since = time.Unix(since.Unix()-since.Unix()%length, 0)
	query := t.db.Reading(ctx).Where("deployment = ? AND step = ? AND start >= ?", deployment, int(step), store.InstantOf(since))
	if len(consumers) > 0 {
		query = query.Where("consumer IN ?", consumers)
	}
	var rows []callRow
	if err := query.Order("start, consumer, status").Limit(most + 1).Find(&rows).Error; err != nil {
		return nil, store.Wrap("read counts of calls", err)
	}
	if len(rows) > most {
		return nil, store.Wrap("read counts of calls", domain.ErrLimit)
	}
	return store.All(rows, func(row callRow) Count {
		return Count{Start: row.Start.Time(), Consumer: row.Consumer, Status: row.Status, Calls: Calls{row.Calls, row.Micros}}
	}), nil
}

// RecentCalls returns the newest requests of a deployment that came at since or later, at most limit of
// them, the newest first, without entries. If consumers is not empty, only their requests are returned.
func (t *Traffic) RecentCalls(ctx context.Context, deployment string, since time.Time, consumers []string, limit int) ([]Request, error) {
	query := t.db.Reading(ctx).Where("deployment = ? AND at >= ?", deployment, store.InstantOf(since)).Session(&gorm.Session{})
	if len(consumers) == 0 {
		return findRequests(query, limit, "read recent calls")
	}
	var all []Request
	for _, consumer := range consumers { // each from its own place in the index
		some, err := findRequests(query.Where("consumer = ?", consumer), limit, "read recent calls")
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	slices.SortFunc(all, func(a, b Request) int { return cmp.Or(b.At.Compare(a.At), cmp.Compare(b.ID, a.ID)) })
	return all[:min(limit, len(all))], nil
}

// RequestFilter selects requests of a deployment. Empty or zero fields select all.
type RequestFilter struct {
	Deployment   string
	Since, Until time.Time // both inclusive
	NotBefore    time.Time // also inclusive, but a cursor does not depend on it
	Method       string
	Class        int     // 2 to 5: of the status
	RoutePath    *string // empty: no route matched; nil: any
	Severity     domain.Severity
	Search       string // in the messages, whatever the case of ASCII letters
	Cursor       string // a cursor from the answer before
	Limit        int
}

// listRequests is the letter of the list in cursors.
const listRequests = "r"

// ListRequests returns requests without their entries, the newest first, and the cursor of the next
// page; empty: there is none. If the filter has no index, ListRequests searches. After a time limit a
// search ends where it is: then there are fewer requests than the limit, perhaps none, and a cursor.
// store.ErrCursor: the filter's cursor is not one of a list with this filter.
func (t *Traffic) ListRequests(ctx context.Context, f RequestFilter) ([]Request, string, error) {
	digest := f.digest()
	cursor, err := store.DecodeCursor(f.Cursor, listRequests, f.Deployment, func(c store.Cursor) bool {
		_, _, ok := placeOf(c)
		return c.Filter == digest && ok
	})
	if err != nil {
		return nil, "", err
	}
	query := f.where(t.db.Reading(ctx))
	if cursor != nil {
		at, id, _ := placeOf(*cursor)
		// The first condition selects the partitions, the second one the row.
		query = query.Where("at <= ? AND (at < ? OR id < ?)", at, at, id)
	}
	var list []Request
	var end string
	if f.indexed() {
		list, err = findRequests(query, f.Limit+1, "list requests")
	} else {
		list, end, err = t.search(ctx, query, f, cursor)
	}
	if err != nil || len(list) <= f.Limit && end == "" {
		return list, "", err
	}
	if len(list) > f.Limit {
		list = list[:f.Limit]
		last := list[len(list)-1]
		end = cursorPlace(last.At, last.ID)
	}
	next := store.Cursor{List: listRequests, Account: f.Deployment, Filter: digest, ID: end}
	return list, next.Encode(), nil
}

func cursorPlace(at time.Time, id int64) string {
	return strconv.FormatInt(at.UnixMicro(), 36) + "." + strconv.FormatInt(id, 36)
}

// placeOf returns the place that a cursor names.
func placeOf(c store.Cursor) (at store.Instant, id int64, ok bool) {
	first, second, found := strings.Cut(c.ID, ".")
	micros, err := strconv.ParseInt(first, 36, 64)
	if err != nil || !found || micros <= 0 || time.UnixMicro(micros).UTC().Year() > 9999 {
		return 0, 0, false
	}
	id, err = strconv.ParseInt(second, 36, 64)
	return store.Instant(micros), id, err == nil && id >= 0 && c.At == 0
}

// digest returns a number that differs for other filters. The begin and length of the page don't count.
func (f RequestFilter) digest() uint64 {
	h := fnv.New64a()
	route := "\x00"
	if f.RoutePath != nil {
		route = *f.RoutePath
	}
	fmt.Fprintf(h, "%q", []string{
		f.Since.UTC().Format(time.RFC3339Nano), f.Until.UTC().Format(time.RFC3339Nano), f.Method, strconv.Itoa(f.Class), route, string(f.Severity), f.Search,
	})
	return h.Sum64()
}

// indexed reports whether one index finds exactly the filter's requests, in the order of the list.
func (f RequestFilter) indexed() bool {
	filters := 0
	for _, is := range []bool{f.Method != "", f.Class != 0, f.RoutePath != nil, f.Severity != ""} {
		if is {
			filters++
		}
	}
	usual := f.Method == http.MethodGet || f.Class == 2 || f.Severity == domain.SeverityInfo // values that have no index
	return f.Search == "" && (filters == 0 || filters == 1 && !usual)
}

func (f RequestFilter) where(query *gorm.DB) *gorm.DB {
	query = query.Where("deployment = ?", f.Deployment)
	if !f.Since.IsZero() {
		query = query.Where("at >= ?", store.InstantOf(f.Since))
	}
	if !f.NotBefore.IsZero() {
		query = query.Where("at >= ?", store.InstantOf(f.NotBefore))
	}
	if !f.Until.IsZero() {
		query = query.Where("at <= ?", store.InstantOf(f.Until))
	}
	if f.RoutePath != nil {
		query = query.Where("route_path = ?", *f.RoutePath)
	}
	// The conditions are written in full, as in the indexes: neither database uses such an index for a condition
	// with a parameter.
	switch f.Method {
	case "":
	case http.MethodGet:
		query = query.Where("method = 'GET'")
	default:
		query = query.Where("method = ? AND method <> 'GET'", f.Method)
	}
	switch {
	case f.Class >= 3:
		query = query.Where("status / 100 = ? AND status >= 300", f.Class)
	case f.Class > 0:
		query = query.Where("status / 100 = ?", f.Class)
	}
	switch f.Severity {
	case "":
	case domain.SeverityInfo:
		query = query.Where("severity = 'info'")
	default:
		query = query.Where("severity = ? AND severity <> 'info'", f.Severity)
	}
	if f.Search != "" {
		query = store.Contains(query, f.Search, "messages", "method || ' ' || path || '"+lastMessage+"' || status")
	}
	return query
}

// NotKept returns how many requests of a deployment have no row, in the minutes that overlap the
// time from since to until. Zero times are no bounds.
func (t *Traffic) NotKept(ctx context.Context, deployment string, since, until time.Time) (int64, error) {
	query := t.db.Reading(ctx).Model(&notKeptRow{}).Where("deployment = ?", deployment)
	if !since.IsZero() {
		query = query.Where("start >= ?", store.InstantOf(since.Truncate(time.Minute)))
	}
	if !until.IsZero() {
		query = query.Where("start <= ?", store.InstantOf(until))
	}
	var sum int64
	err := query.Select("coalesce(sum(requests), 0)").Scan(&sum).Error
	return sum, store.Wrap("count requests that were not kept", err)
}

// GetRequest returns a request with its entries; the newest one if clients have used an id twice.
func (t *Traffic) GetRequest(ctx context.Context, deployment, requestID string) (Request, error) {
	if !store.Storable(requestID) {
		return Request{}, store.Wrap("read request", domain.ErrNotFound)
	}
	var row requestRow
	query, newest := t.db.Reading(ctx), "+at DESC, +id DESC" // few requests: the signs keep SQLite from the index by time
	if query.Name() == "postgres" {
		newest = "at DESC, id DESC"
	}
	err := query.Where("deployment = ? AND request_id = ?", deployment, requestID).Order(newest).Take(&row).Error
	if err != nil {
		return Request{}, store.Wrap("read request", err)
	}
	r := row.request()
	r.Entries, err = row.stored()
	return r, err
}

// newestFirst returns the order of lists. The indexes of filters end with the time. On SQLite, the sign keeps the primary
// key from matching more of the order than these indexes do: otherwise SQLite would use it whatever the filter is.
func newestFirst(query *gorm.DB) string {
	if query.Name() == "postgres" {
		return "at DESC, id DESC"
	}
	return "at DESC, +id DESC"
}

// findRequests reads rows without their entries.
func findRequests(query *gorm.DB, limit int, doing string) ([]Request, error) {
	var rows []requestRow
	if err := query.Omit("entries", "messages").Order(newestFirst(query)).Limit(limit).Find(&rows).Error; err != nil {
		return nil, store.Wrap(doing, err)
	}
	list := make([]Request, len(rows))
	for i := range rows {
		list[i] = rows[i].request()
	}
	return list, nil
}

func (row *requestRow) request() Request {
	return Request{
		Deployment: row.Deployment, At: row.At.Time(), ID: row.ID, RequestID: row.RequestID, ClientRequestID: row.ClientRequestID,
		BuildID: row.BuildID, Method: row.Method, Host: row.Host, Path: row.Path, RoutePath: row.RoutePath, Status: row.Status,
		Took: micros(row.Micros), Consumer: row.Consumer, Severity: domain.Severity(row.Severity), Network: row.Network,
		BytesIn: row.BytesIn, BytesOut: row.BytesOut, BackEnd: BackEnd{row.BackEndHost, row.BackEndStatus, micros(row.BackEndMicros)},
		MCPMethod: row.MCPMethod, MCPTool: row.MCPTool, EntryCount: row.EntryCount, Truncated: row.Truncated,
	}
}

func micros(n int64) time.Duration { return time.Duration(n) * time.Microsecond }

func (row *requestRow) stored() ([]Entry, error) {
	if row.Entries == "" {
		return nil, nil
	}
	var stored []storedEntry
	if err := json.Unmarshal([]byte(row.Entries), &stored); err != nil {
		return nil, fmt.Errorf("read entries of a request: %w", err)
	}
	return store.All(stored, func(e storedEntry) Entry {
		return Entry{At: time.UnixMicro(e.At).UTC(), Severity: e.Severity, Source: e.Source, Message: e.Message, Attributes: e.Attributes}
	}), nil
}
