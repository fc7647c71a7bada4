// Package traffic has the data of gateways about the requests that they have answered: exact counts by
// deployment, consumer and status, and rows of some of the requests. Gateways write, the api reads.
//
// A process writes batches with numbers that rise by one. The number is stored in the batch's own
// transaction, so a batch that is written again because its result was unclear counts once.
package traffic

import (
	"context"
	"strconv"
	"sync"
	"time"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/metering"
)

// MaxConsumers is how many consumers of a deployment are counted separately on one day. The others
// are counted together, as domain.ConsumerOther.
const MaxConsumers = 10_000

// How long counts are kept, by step.
const (
	minutesKept = 2 * time.Hour
	hoursKept   = 8 * 24 * time.Hour
	daysKept    = 100 * 24 * time.Hour
	writersKept = 24 * time.Hour // the last batches of processes that have ended
)

// Traffic reads and writes the tables.
type Traffic struct {
	db   *store.Store
	most int // consumers of a deployment and day that are counted separately

	searchTime time.Duration

	mu        sync.Mutex
	consumers map[deploymentDay]map[string]struct{} // the consumers that are counted separately
	hours     map[int64]struct{}                    // hours that have a partition, in hours of Unix time
}

// New returns the tables of an open database.
func New(db *store.Store) *Traffic {
	return &Traffic{db: db, most: MaxConsumers, searchTime: searchTime, consumers: map[deploymentDay]map[string]struct{}{}, hours: map[int64]struct{}{}}
}

// CallKey is what calls are counted by.
type CallKey struct {
	Deployment string
	Consumer   string
	Minute     int64 // of Unix time
	Status     int
}

// Calls are the counts of a CallKey.
type Calls struct {
	Calls  int64
	Micros int64 // the time of all answers together
}

// DeploymentMinute identifies a minute in which a deployment was called. Batch.NotKept counts by it.
type DeploymentMinute struct {
	Deployment string
	Minute     int64 // of Unix time
}

// Batch is the data that a process writes at once.
type Batch struct {
	Writer string // of one run of a process
	Number int64  // 1, 2, 3
	Calls  map[CallKey]*Calls
	// NotKept counts the calls that have no row.
	NotKept map[DeploymentMinute]int64
	Rows    []Request
	// Meters are the usage of consumers.
	Meters map[metering.HourKey]metering.Count
}

// Request is a request that was kept.
type Request struct {
	Deployment string
	At         time.Time // when it came
	// ID distinguishes requests that came at the same time: any number from 0 on.
	ID              int64
	RequestID       string
	ClientRequestID string // empty: the client gave none, or the same as RequestID
	BuildID         string
	Method          string
	Host            string
	Path            string // without the query
	RoutePath       string // empty: no route matched
	Status          int
	Took            time.Duration
	Consumer        string
	Severity        domain.Severity // the highest of the entries
	Network         string          // of the client: /24 or /48; empty: not known
	BytesIn         int64
	BytesOut        int64
	BackEnd         BackEnd
	MCPMethod       string // empty: the request was not for an MCP server
	MCPTool         string
	// Entries are all entries except the last one, which follows from the other fields: see Last.
	// In lists, only their number is set.
	Entries    []Entry
	EntryCount int  // including the last one
	Truncated  bool // entries, or parts of the request, were left out
}

// BackEnd is the server that a route asked for its answer; if it asked several, the last.
type BackEnd struct {
	Host   string // with its port, if that is not the scheme's; empty: the route asked none
	Status int    // 0: it did not answer
	Took   time.Duration
}

// Entry is one line of a request's log.
type Entry struct {
	At       time.Time
	Severity domain.Severity
	Source   string
	Message  string
	// Attributes is a JSON object; nil: there are none.
	Attributes []byte
}

// Last returns the last entry, which every request has.
func (r *Request) Last() Entry {
	return Entry{
		At: r.At.Add(r.Took), Severity: domain.SeverityOfStatus(r.Status), Source: "gateway",
		Message: r.Method + " " + r.Path + lastMessage + strconv.Itoa(r.Status),
	}
}

// lastMessage is the text between the path and the status in the last entry.
const lastMessage = " was answered with "

// Maintain makes room for the next hours, and removes data that has been kept long enough;
// retention is that of the requests.
func (t *Traffic) Maintain(ctx context.Context, retention time.Duration) error {
	now := t.db.Now()
	t.forgetHours()
	if err := t.prepare(ctx, now, now.Add(time.Hour), now.Add(2*time.Hour)); err != nil {
		return err
	}
	if err := t.db.DropHours(ctx, tableRequests, "(deployment, at, id)", now.Add(-retention)); err != nil {
		return err
	}
	for _, old := range []struct {
		table, key, condition string
		before                time.Time
	}{
		{"gateway_calls", callsKey, "step = 1 AND start < ?", now.Add(-minutesKept)},
		{"gateway_calls", callsKey, "step = 60 AND start < ?", now.Add(-hoursKept)},
		{"gateway_calls", callsKey, "step = 1440 AND start < ?", now.Add(-daysKept)},
		{"gateway_not_kept", "(deployment, start)", "start < ?", now.Add(-retention)},
		{"gateway_writers", "writer", "written_at < ?", now.Add(-writersKept)},
	} {
		if _, err := t.db.Purge(ctx, old.table, old.key, old.condition, store.InstantOf(old.before)); err != nil {
			return store.Wrap("purge "+old.table, err)
		}
	}
	return nil
}

const (
	tableRequests = "gateway_requests"
	callsKey      = "(deployment, step, start, consumer, status)"
)
